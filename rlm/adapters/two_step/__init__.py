"""The two-step adapter: the main model answers in its own words, an extraction model turns that into typed values."""
