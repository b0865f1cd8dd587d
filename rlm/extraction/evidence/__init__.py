"""Evidence for extracted outputs, found in the live variables and the recorded output."""
