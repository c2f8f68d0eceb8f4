// Package rivertype has the shape of River's package of that name.
package rivertype

type JobRow struct {
	ID      int64
	Attempt int
}

type JobInsertResult struct{}
