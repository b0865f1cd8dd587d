"""Parts of the tests of isolation."""
