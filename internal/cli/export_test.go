package cli

// AsText is asText.
func AsText(s string) string { return asText(s) }

// AsBytes is asBytes.
func AsBytes(s string) string { return asBytes(s) }

// BeyondDashes is beyondDashes.
func BeyondDashes(args []string) (seen, rest []string) { return beyondDashes(args) }
