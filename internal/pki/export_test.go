package pki

// MaxLeaves is how many leaves are kept.
const MaxLeaves = maxLeaves

// Kept is how many are.
func (l *Leaves) Kept() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.kept)
}
