// Package abi is memory that crosses the boundary of a component. Policies have no use for it.
package abi

// Chunks asks about at most so many rows at a time.
func Chunks[T any](rows []T, most int, ask func([]T)) {
	for len(rows) > 0 {
		some := rows[:min(most, len(rows))]
		ask(some)
		rows = rows[len(some):]
	}
}

// Rows asks for columns of rows, one row after another, and returns a slice for each row.
func Rows[T any](rows []T, most int, ask func([]T) []uint64) (split [][]uint64) {
	Chunks(rows, most, func(some []T) {
		answers := ask(some)
		columns := len(answers) / len(some)
		for i := range some {
			split = append(split, answers[i*columns:(i+1)*columns:(i+1)*columns])
		}
	})
	return split
}
