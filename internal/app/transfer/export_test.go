package transfer

import (
	"io"
	"os"
)

// Take unpacks an archive as Out does, under the name as.
func Take(into *os.File, r io.Reader, root, as string, limits Limits) (Report, error) {
	var report Report
	u, err := newUnpacker(into)
	if err != nil {
		return report, err
	}
	if err = judge(r, root, limits, u, report.skip); err == nil {
		err = u.place(as)
	}
	report.Files, report.Planted = u.count, u.planted
	if cerr := u.close(); err == nil {
		err = cerr
	}
	return report, err
}

// StaysInside is for the test of links.
var StaysInside = staysInside
