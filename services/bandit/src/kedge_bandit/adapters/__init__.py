"""Technologies: each adapter is named after the one it speaks to."""
