package proc

// ParseStat is parseStat for the tests.
var ParseStat = parseStat

// ByParents is byParents for the tests.
var ByParents = byParents
