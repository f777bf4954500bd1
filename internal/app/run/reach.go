package run

// Reach is what of a request is about what is reached with the user's own
// rights, and how.
type Reach struct {
	Git []string // --git
}
