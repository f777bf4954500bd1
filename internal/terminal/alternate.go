package terminal

// Alternate reports whether the program has the alternate screen: what is seen
// there is not what was written last, but what was written where.
func (f *Filter) Alternate() bool { return f.screen.alternate() }
