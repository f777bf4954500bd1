package seccomp

// Unfiltered are calls that pass every filter by.
func Unfiltered() []uintptr { return nil }
