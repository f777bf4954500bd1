package nssdb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
)

// What is written here of SQLite's file format (sqlite.org/fileformat2.html):
// tables of few rows, whose indexes each fit in one page.
const (
	pageSize   = 4096
	fileHeader = 100 // at the start of page 1

	interiorTable = 5
	leafIndex     = 10
	leafTable     = 13
)

var errTooBig = errors.New("a value is too long for an index")

// table is a table with its rows. A value is nil, an int, a string or a []byte.
type table struct {
	name, sql string
	key       int // the column that is PRIMARY KEY, whose index has no SQL
	rows      [][]any
	indexes   []index
}

type index struct {
	name, sql string
	column    int
}

// database is a file in the making.
type database struct{ pages [][]byte }

// encode returns the file that holds some tables.
func encode(tables []table) ([]byte, error) {
	d := &database{pages: [][]byte{nil}} // page 1 is the schema's
	var schema [][]any
	for _, t := range tables {
		schema = append(schema, []any{"table", t.name, t.name, d.table(t.rows), t.sql})
		root, err := d.index(t.rows, t.key)
		if err != nil {
			return nil, err
		}
		schema = append(schema, []any{"index", "sqlite_autoindex_" + t.name + "_1", t.name, root, nil})
		for _, x := range t.indexes {
			if root, err = d.index(t.rows, x.column); err != nil {
				return nil, err
			}
			schema = append(schema, []any{"index", x.name, t.name, root, x.sql})
		}
	}
	cells := d.tableCells(schema)
	if !fits(cells, fileHeader) {
		return nil, errTooBig
	}
	d.pages[0] = page(leafTable, fileHeader, cells, 0)
	copy(d.pages[0], d.header(len(schema)))
	return bytes.Join(d.pages, nil), nil
}

// header returns the first bytes of the file.
func (d *database) header(cookie int) []byte {
	h := make([]byte, fileHeader)
	copy(h, "SQLite format 3\x00")
	binary.BigEndian.PutUint16(h[16:], pageSize)
	copy(h[18:], []byte{1, 1, 0, 64, 32, 32}) // a rollback journal; fractions that are fixed
	for at, v := range map[int]int{
		24: 1, 92: 1, // how often the file was changed, and for which of these the size holds
		28: len(d.pages),
		40: cookie,
		44: 4,       // schema format
		56: 1,       // UTF-8
		96: 3040001, // the version of SQLite whose format this is
	} {
		binary.BigEndian.PutUint32(h[at:], uint32(v))
	}
	return h
}

// add appends a page and returns its number.
func (d *database) add(p []byte) int {
	d.pages = append(d.pages, p)
	return len(d.pages)
}

// table writes rows, with row IDs from 1, and returns the root's page number.
func (d *database) table(rows [][]any) int {
	var leaves [][][]byte
	for i, cell := range d.tableCells(rows) {
		if i == 0 || !fits(append(slices.Clone(leaves[len(leaves)-1]), cell), 0) {
			leaves = append(leaves, nil)
		}
		leaves[len(leaves)-1] = append(leaves[len(leaves)-1], cell)
	}
	switch len(leaves) {
	case 0:
		return d.add(page(leafTable, 0, nil, 0))
	case 1:
		return d.add(page(leafTable, 0, leaves[0], 0))
	}
	var children [][]byte
	last, row := 0, 0
	for i, leaf := range leaves {
		last = d.add(page(leafTable, 0, leaf, 0))
		row += len(leaf)
		if i < len(leaves)-1 {
			children = append(children, varint(binary.BigEndian.AppendUint32(nil, uint32(last)), row))
		}
	}
	return d.add(page(interiorTable, 0, children, last))
}

// tableCells encodes rows as the cells of leaves. What is too long for one goes
// on in pages of its own.
func (d *database) tableCells(rows [][]any) [][]byte {
	const (
		most  = pageSize - 35
		least = (pageSize-12)*32/255 - 23
		rest  = pageSize - 4
	)
	cells := make([][]byte, 0, len(rows))
	for i, row := range rows {
		payload := record(row)
		cell := varint(varint(nil, len(payload)), i+1)
		if len(payload) <= most {
			cells = append(cells, append(cell, payload...))
			continue
		}
		local := least + (len(payload)-least)%rest
		if local > most {
			local = least
		}
		cell = append(cell, payload[:local]...)
		cells = append(cells, binary.BigEndian.AppendUint32(cell, uint32(len(d.pages)+1)))
		for part := range slices.Chunk(payload[local:], rest) {
			p := make([]byte, pageSize)
			copy(p[4:], part)
			d.add(p)
			binary.BigEndian.PutUint32(p, uint32(len(d.pages)+1))
		}
		binary.BigEndian.PutUint32(d.pages[len(d.pages)-1], 0) // of the last
	}
	return cells
}

// index writes the index of a column and returns its page number.
func (d *database) index(rows [][]any, column int) (int, error) {
	const most = (pageSize-12)*64/255 - 23
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return compare(rows[a][column], rows[b][column]) })
	var cells [][]byte
	for _, i := range order {
		payload := record([]any{rows[i][column], i + 1})
		if len(payload) > most {
			return 0, errTooBig
		}
		cells = append(cells, append(varint(nil, len(payload)), payload...))
	}
	if !fits(cells, 0) {
		return 0, errTooBig
	}
	return d.add(page(leafIndex, 0, cells, 0)), nil
}

// compare orders values of one kind as SQLite does; nil comes first.
func compare(a, b any) int {
	switch a := a.(type) {
	case int:
		if b, ok := b.(int); ok {
			return a - b
		}
	case string:
		if b, ok := b.(string); ok {
			return strings.Compare(a, b)
		}
	case []byte:
		if b, ok := b.([]byte); ok {
			return bytes.Compare(a, b)
		}
	case nil:
		if b == nil {
			return 0
		}
		return -1
	}
	return 1
}

// fits reports whether cells fit in a page behind some bytes.
func fits(cells [][]byte, behind int) bool {
	const header = 12
	size := behind + header
	for _, c := range cells {
		size += 2 + len(c)
	}
	return size <= pageSize
}

// page lays out a page of a tree: its header, the offsets of the cells, and
// the cells from the end on. right is the last child of an interior page.
func page(kind byte, behind int, cells [][]byte, right int) []byte {
	p := make([]byte, pageSize)
	p[behind] = kind
	offsets := behind + 8
	if kind == interiorTable {
		binary.BigEndian.PutUint32(p[offsets:], uint32(right))
		offsets += 4
	}
	at := pageSize
	for i, c := range cells {
		at -= len(c)
		copy(p[at:], c)
		binary.BigEndian.PutUint16(p[offsets+2*i:], uint16(at))
	}
	binary.BigEndian.PutUint16(p[behind+3:], uint16(len(cells)))
	binary.BigEndian.PutUint16(p[behind+5:], uint16(at))
	return p
}

// record encodes values as a row: what each is, then all of them.
func record(values []any) []byte {
	var kinds, body []byte
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			kinds = append(kinds, 0)
		case int:
			kinds = append(kinds, 4) // 32 bits
			body = binary.BigEndian.AppendUint32(body, uint32(v))
		case string:
			kinds = varint(kinds, 2*len(v)+13)
			body = append(body, v...)
		case []byte:
			kinds = varint(kinds, 2*len(v)+12)
			body = append(body, v...)
		}
	}
	size := len(kinds) + 1 // with itself
	if size >= 1<<7 {
		size++
	}
	return slices.Concat(varint(nil, size), kinds, body)
}

// varint appends a number as SQLite writes it: seven bits a byte, the highest
// first, the top bit set in all but the last.
func varint(to []byte, v int) []byte {
	out := []byte{byte(v & 0x7f)}
	for v >>= 7; v > 0; v >>= 7 {
		out = append(out, byte(v&0x7f|0x80))
	}
	slices.Reverse(out)
	return append(to, out...)
}
