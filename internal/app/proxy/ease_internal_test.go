package proxy

import (
	"testing"
	"testing/synctest"
	"time"
)

// Memory is given back once, a while after the last work, and again after more.
func TestEase_GivesBackAfterWork(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		freed := 0
		e := &ease{free: func() { freed++ }, wait: restWait}
		e.once.Do(func() {}) // the settings of this process stay
		expect := func(want int) {
			t.Helper()
			synctest.Wait()
			if freed != want {
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
