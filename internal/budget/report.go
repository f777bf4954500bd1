package budget

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey"
	"github.com/bailey-dev/bailey/internal/pricing"
)

// By says what a report is grouped by.
type By uint8

// The groupings.
const (
	ByModel By = iota
	ByTask
	ByDay
)

// Row is what was used under one key.
type Row struct {
	Key        string
	Started    time.Time // when the first call began
	Models     []string  // that were called, in the order of their names
	Requests   int64
	Estimated  int64 // of the requests: those whose usage nobody said
	Input      int64 // tokens that were neither read from a cache nor written to one
	Output     int64
	CacheRead  int64
	CacheWrite int64
	Cost       pricing.Money
	Priced     bool // Cost says something; it is of the calls that had a price
	Open       int64
	OpenTokens int64 // reserved by calls that are under way, or never ended
	OpenCost   pricing.Money
}

// Report is what was used.
type Report struct {
	Rows  []Row // by their keys; those of tasks in the order in which they began
	Total Row
	Odd   int // lines of the files that say nothing
}

// Report adds up what began since an instant; the zero time is all that is kept.
// It takes no lock: what is written meanwhile may be in it or not.
func (f Folder) Report(by By, since time.Time) (Report, error) {
	days, err := f.Days()
	if err != nil {
		return Report{}, err
	}
	s := summary{by: by, rows: map[string]*Row{}}
	for _, d := range days {
		if !since.IsZero() && d < DayOf(since) {
			continue
		}
		if err := s.day(f.path(d), d, since); err != nil {
			return Report{}, err
		}
	}
	r := Report{Odd: s.odd, Total: s.total}
	for _, row := range s.rows {
		r.Rows = append(r.Rows, *row)
	}
	slices.SortFunc(r.Rows, func(a, b Row) int {
		if by == ByTask && !a.Started.Equal(b.Started) {
			return a.Started.Compare(b.Started)
		}
		return cmp.Compare(a.Key, b.Key)
	})
	return r, nil
}

// summary adds up.
type summary struct {
	by    By
	rows  map[string]*Row
	total Row
	odd   int
}

func (s *summary) day(path string, d Day, since time.Time) error {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return bailey.WrapError(bailey.Unavailable, "open the record of usage", err, "")
	}
	defer func() { _ = file.Close() }()
	open, settled := map[callID]record{}, map[callID]bool{}
	begun := map[callID]bool{} // since the instant
	err = eachLine(file, func(b []byte) {
		r, ok := readLine(b)
		switch {
		case !ok:
			s.odd++
		case r.Kind == reserveOne && !settled[r.ID]:
			begun[r.ID] = r.At >= since.UnixMilli() || since.IsZero()
			open[r.ID] = r
		case r.Kind == settleOne && !settled[r.ID]:
			settled[r.ID] = true
			r.At = begunAt(open, &r)
			delete(open, r.ID)
			if in, known := begun[r.ID]; in || !known {
				s.settled(d, &r)
			}
		}
	})
	if err != nil {
		return bailey.WrapError(bailey.Unavailable, "read the record of usage "+path, err, "")
	}
	for _, r := range open {
		if begun[r.ID] {
			s.open(d, &r)
		}
	}
	return nil
}

// begunAt is when the call of a settlement began, as far as it is known.
func begunAt(open map[callID]record, r *record) int64 {
	if first, known := open[r.ID]; known {
		return first.At
	}
	return r.At
}

func (s *summary) row(d Day, r *record) *Row {
	key := map[By]string{ByModel: r.Model, ByTask: r.Task, ByDay: string(d)}[s.by]
	if s.rows[key] == nil {
		s.rows[key] = &Row{Key: key}
	}
	return s.rows[key]
}

// count calls f with each row that a call is of.
func (s *summary) count(d Day, r *record, f func(*Row)) {
	at := time.UnixMilli(r.At).UTC()
	for _, row := range []*Row{s.row(d, r), &s.total} {
		if r.At > 0 && (row.Started.IsZero() || at.Before(row.Started)) {
			row.Started = at
		}
		if i, there := slices.BinarySearch(row.Models, r.Model); !there {
			row.Models = slices.Insert(row.Models, i, r.Model)
		}
		f(row)
	}
}

func (s *summary) settled(d Day, r *record) {
	if r.Void {
		return
	}
	u := pricing.Usage{Input: r.Tokens}
	if r.Usage != nil {
		u = *r.Usage
	}
	s.count(d, r, func(row *Row) {
		row.Requests++
		if r.Estimated {
			row.Estimated++
		}
		row.Input = pricing.Add(row.Input, max(u.Input, 0))
		row.Output = pricing.Add(row.Output, max(u.Output, 0))
		row.CacheRead = pricing.Add(row.CacheRead, max(u.CacheRead, 0))
		row.CacheWrite = pricing.Add(row.CacheWrite, pricing.Add(max(u.CacheWrite, 0), max(u.CacheWrite1h, 0)))
		row.Cost = row.Cost.Plus(r.Money)
		row.Priced = row.Priced || r.Priced
	})
}

func (s *summary) open(d Day, r *record) {
	s.count(d, r, func(row *Row) {
		row.Open++
		row.OpenTokens = pricing.Add(row.OpenTokens, r.Tokens)
		row.OpenCost = row.OpenCost.Plus(r.Money)
		row.Priced = row.Priced || r.Priced
	})
}

// eachLine calls f for each line that has an end and is not empty. Of a line
// that is longer than any of ours it sees the beginning.
func eachLine(r io.Reader, f func([]byte)) error {
	buffered := bufio.NewReaderSize(r, longestLine+2)
	cut := false // the line goes on from what was seen
	for {
		b, err := buffered.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if !cut {
				f(b)
			}
			cut = true
			continue
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if !cut && len(b) > 1 {
			f(b[:len(b)-1])
		}
		cut = false
	}
}
