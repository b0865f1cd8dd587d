"""Tests of rlm and of its sandbox: they mirror the packages; `support` has what they share."""
