"""Hold the nouns: values and rules that do no I/O and read no clock."""
