package diag

import "strings"

// Nearest returns the candidate that name is most likely a misspelling of, or
// "": at most two letters differ, letter case aside, and no more than a third
// of them.
func Nearest(name string, candidates []string) string {
	letters := []rune(strings.ToLower(name))
	best, bestDistance := "", 3
	for _, candidate := range candidates {
		wanted := []rune(strings.ToLower(candidate))
		if len(wanted)-len(letters) > 2 || len(letters)-len(wanted) > 2 {
			continue
		}
		d := distance(letters, wanted)
		if d < bestDistance && d*3 <= len(wanted) {
			best, bestDistance = candidate, d
		}
	}
	return best
}

// distance is the number of single letters to add, drop, change or swap with
// their neighbour to get from a to b.
func distance(a, b []rune) int {
	above := make([]int, len(b)+1)
	row := make([]int, len(b)+1)
	next := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], above[j-2]+1)
			}
		}
		above, row, next = row, next, above
	}
	return row[len(b)]
}
