"""What stands between a kernel and the machine. One module a mechanism; `confinement` puts them in order."""
