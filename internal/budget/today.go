package budget

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/bailey-dev/bailey/internal/pricing"
)

// Use is what was used, in each unit.
type Use struct {
	Tokens int64
	Money  pricing.Money
}

// Of is what of the use a limit is about, as a person writes it: "1.2M, 3.12usd".
// It has the limit's units; nothing for no limit.
func (u Use) Of(l Limit) string {
	var parts []string
	if l.Tokens != 0 {
		parts = append(parts, about(u.Tokens, down))
	}
	if l.Money != 0 {
		parts = append(parts, u.Money.Brief())
	}
	return strings.Join(parts, ", ")
}

// Today is what was used on one day. The zero Today is nothing at all.
type Today struct {
	page *page
	at   time.Time
}

// Used reads what was used today. It writes nothing and takes no lock: what is
// written meanwhile may be in it or not. Calls that are under way are not in it,
// those that never ended are. What it returns beside an error says as much as
// could be read.
func (f Folder) Used(now time.Time) (Today, error) {
	days, err := f.Days()
	if err != nil {
		return Today{}, err
	}
	day := DayOf(now)
	if n := len(days); n > 0 {
		day = max(day, days[n-1]) // as calls are booked
	}
	file, err := os.OpenFile(f.path(day), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, os.ErrNotExist) {
		return Today{}, nil
	}
	if err != nil {
		return Today{}, err
	}
	defer func() { _ = file.Close() }()
	p := newPage(Page{day, file}, identity{})
	err = p.read()
	return Today{p, now}, err
}

// Model is what was used of a model, by bailey's name for it.
func (t Today) Model(model string) Use { return t.of(OfModelDay, model) }

// All is what was used of all models.
func (t Today) All() Use { return t.of(OfDay, "") }

// Held is what calls under way hold of a model's, or of all of them for "": some
// of it comes back when they end. A gateway that was killed holds it half an hour.
func (t Today) Held(model string) Use {
	if t.page == nil {
		return Use{}
	}
	s := OfModelDay
	if model == "" {
		s = OfDay
	}
	alive, _ := t.page.held(s, model, t.at)
	return Use{Tokens: alive.tokens, Money: alive.money}
}

func (t Today) of(s Scope, model string) Use {
	if t.page == nil {
		return Use{}
	}
	_, rest := t.page.held(s, model, t.at)
	sum := t.page.sums[keyOf(s, model)].plus(rest)
	return Use{Tokens: sum.tokens, Money: sum.money}
}
