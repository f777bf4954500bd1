package budget

import "slices"

// Dirty reports whether something is not known to be kept by the disk.
func Dirty(l *Ledger) bool {
	l.turn <- struct{}{}
	defer l.end()
	return slices.ContainsFunc(l.pages, func(p *page) bool { return p.dirty })
}
