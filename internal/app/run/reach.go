package run

// Reach is what of a request is about what is reached with the user's own
// rights, and how.
type Reach struct {
	Git       []string // --git
	Learn     bool     // --learn
	LearnFile string   // --learn=FILE; empty: what was learned is printed
}

// learning prepares what a run learns in, or returns nil.
func (r *Request) learning(h Host, workspace string) (*learned, error) {
	if !r.Learn {
		return nil, nil //nolint:nilnil // it does not
	}
	file, err := openProposal(h, r.LearnFile, workspace)
	return &learned{file: file}, err
}
