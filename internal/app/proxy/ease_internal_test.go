package proxy

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Memory is given back once, a while after the last work, and again after more.
func TestEase_GivesBackAfterWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var freed atomic.Int64
		e := &ease{free: func() { freed.Add(1) }, wait: restWait}
		e.once.Do(func() {}) // the settings of this process stay
		expect := func(want int64) {
			t.Helper()
			synctest.Wait()
			if freed := freed.Load(); freed != want {
				t.Fatalf("given back %d times, want %d", freed, want)
			}
		}
		for range 5 {
			e.work()
			time.Sleep(restWait - 1)
			expect(0)
		}
		time.Sleep(2 * restWait)
		expect(1)
		time.Sleep(time.Hour)
		expect(1)
		e.work()
		time.Sleep(restWait)
		expect(2)
	})
}
