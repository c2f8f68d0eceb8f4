package storetest_test

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// flaws are the guarantees that a store can break, and the checks that find out.
var flaws = map[string][]string{
	"promises more than there is":            {"Guarantees"},
	"says that nothing is atomic":            {"Guarantees"},
	"says that nothing survives":             {"Guarantees"},
	"hides from the compiler what survives":  {"Guarantees"},
	"stores no answers":                      {"FirstThenReplay", "Concurrency", "SweepBesideExecute"},
	"does not mark replays":                  {"FirstThenReplay", "ExpiryWhileAnswered"},
	"stores text":                            {"ReplayIsByteForByte"},
	"joins header lines":                     {"ReplayIsByteForByte"},
	"stores only successes":                  {"ReplayIsByteForByte"},
	"cuts long answers":                      {"LargestAnswer"},
	"shares answers":                         {"AnswersAreCopies"},
	"replays to one at a time":               {"ReplaysAtOnce"},
	"compares no fingerprints":               {"Mismatch", "InFlight"},
	"claims twice":                           {"InFlight", "ThunderingHerd", "NestedExecute", "ExpiryWhileRunning", "Fenced"},
	"keeps claims in its process":            {"InFlight", "ThunderingHerd", "ExpiryWhileRunning", "Fenced"},
	"keeps records in its process":           {"ReplicaSharesRecords", "InFlight", "Mismatch", "Lookup"},
	"claims keys for all operations":         {"NestedExecute"},
	"forgets the scope":                      {"IdentityIsExact"},
	"forgets the operation":                  {"IdentityIsExact", "OptionsBelongToOperation"},
	"folds the case of keys":                 {"IdentityIsExact"},
	"trims keys":                             {"IdentityIsExact"},
	"joins without lengths":                  {"IdentityIsExact"},
	"replaces what is no text":               {"IdentityOfAnyBytes"},
	"cuts long scopes":                       {"LongestIdentity"},
	"keeps the first operation's retention":  {"OptionsBelongToOperation"},
	"wraps the error of work":                {"ErrorFreesKey"},
	"commits failed work":                    {"ErrorFreesKey", "CancelledDuring"},
	"keeps claims that failed":               {"ErrorFreesKey", "PanicFreesKey", "GoexitFreesKey", "CancelledDuring", "ExpiryWhileRunning"},
	"swallows panics":                        {"PanicFreesKey"},
	"stores an answer without its effects":   {"FaultyHandler"},
	"takes late effects":                     {"LateUseOfTransaction"},
	"runs a cancelled request":               {"CancelledBefore"},
	"loses answers of clients that are gone": {"CancelledDuring"},
	"never runs work again":                  {"Rerun"},
	"runs work again although it must not":   {"Rerun"},
	"runs work again too often":              {"Rerun"},
	"keeps what a lost run wrote":            {"Rerun"},
	"commits plain work that failed":         {"Transact"},
	"replays expired answers":                {"Expiry", "SweepSparesClaim"},
	"replays expired answers meanwhile":      {"ExpiryWhileRunning"},
	"counts the retention from the claim":    {"RetentionFromCompletion"},
	"keeps records for a day":                {"RetentionFromCompletion", "Lookup"},
	"does not judge the key's age":           {"AgeOfKey", "OptionsBelongToOperation"},
	"judges the key's age before the record": {"AgeOfKey"},
	"sweeps nothing":                         {"Sweep"},
	"sweeps live records":                    {"Sweep"},
	"sweeps claims":                          {"SweepSparesClaim"},
	"does not tell the fingerprint":          {"Lookup"},
	"releases claims":                        {"Release"},
	"releases nothing":                       {"Release"},
	"releases what is not there":             {"Release"},
	"runs without its server":                {"Unreachable"},
	"finds nothing without its server":       {"Unreachable"},
}

// releaseFlaws are those of a release, and the tests whose check ReleaseEntry
// finds them.
var releaseFlaws = map[string][]string{
	"ignores the version":             {"TestMemory", "TestMemoryLeases"},
	"ignores the state":               {"TestMemoryLeases"},
	"does not tell what was released": {"TestMemory", "TestMemoryLeases"},
}

// Each guarantee that a store breaks is noticed by each check that is there for
// it, and each check is there for one.
func TestFlawsAreFound(t *testing.T) {
	t.Parallel()
	finds := map[string]bool{}
	for flaw, checks := range flaws {
		for _, check := range checks {
			finds[check] = true
		}
		t.Run(flaw, func(t *testing.T) {
			t.Parallel()
			out, err := runFlawed(t, "TestLedger", flaw, strings.Join(checks, "|"))
			for _, check := range checks {
				wantFailed(t, "TestLedger/"+check, out, err)
			}
		})
	}
	for flaw, tests := range releaseFlaws {
		t.Run(flaw, func(t *testing.T) {
			t.Parallel()
			for _, test := range tests {
				out, err := runFlawed(t, test, flaw, "ReleaseEntry")
				wantFailed(t, test+"/ReleaseEntry", out, err)
			}
		})
	}
	out, err := runFlawed(t, "TestLedger", "", ".*")
	if err != nil {
		t.Errorf("without a flaw: %v\n%s", err, out)
	}
	passed := regexp.MustCompile(`--- PASS: TestLedger/(\w+) `).FindAllStringSubmatch(out, -1)
	for _, m := range passed {
		if !finds[m[1]] {
			t.Errorf("no flaw is found by %s", m[1])
		}
	}
	if len(passed) < len(finds) {
		t.Errorf("%d checks pass without a flaw, want the %d that find one", len(passed), len(finds))
	}
}

// wantFailed expects a run of the suite to have failed in this check.
func wantFailed(t *testing.T, check, out string, err error) {
	t.Helper()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(out, "--- FAIL: "+check+" ") {
		t.Errorf("%s passes: %v\n%s", check, err, out)
	}
}

// Who leaves out of a fixture what every check needs is told so.
func TestFixtureLacksSomething(t *testing.T) {
	t.Parallel()
	out, err := runFlawed(t, "TestLedger", "has no clock to be moved", "Expiry")
	if err == nil || !strings.Contains(out, "Fixture.Advance is nil") {
		t.Errorf("%v\n%s", err, out)
	}
}

// runFlawed runs checks of a test in a process whose stores have a flaw.
func runFlawed(t *testing.T, test, flaw, checks string) (out string, err error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^"+test+"$/^("+checks+")$")
	cmd.Env = append(os.Environ(), envFlaw+"="+flaw)
	b, err := cmd.CombinedOutput()
	return string(b), err
}
