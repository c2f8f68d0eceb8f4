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

// memoryFlaws are those of lists, releases and leases, and the checks of TestMemory
// and of TestMemoryLeases that find them.
var memoryFlaws = map[string]struct{ store, leases []string }{
	"lists what is not asked for":        {store: []string{"List"}},
	"lists records twice":                {store: []string{"List", "ListBesideWrites"}},
	"lists claims as answers":            {leases: []string{"Listed"}},
	"counts what has expired as answers": {store: []string{"Stats"}},

	"ignores the version":             {store: []string{"ReleaseEntry"}, leases: []string{"ReleaseEntry"}},
	"ignores the state":               {leases: []string{"ReleaseEntry"}},
	"does not tell what was released": {store: []string{"ReleaseEntry"}, leases: []string{"ReleaseEntry"}},

	"stores no answers":                    {leases: []string{"FirstThenReplay", "ClientGone", "Concurrency"}},
	"stores text":                          {leases: []string{"ReplayIsByteForByte"}},
	"claims twice":                         {leases: []string{"InFlight", "OneTakesOver"}},
	"claims for nobody":                    {leases: []string{"CancelledBefore"}},
	"frees nothing":                        {leases: []string{"FailureFreesKey", "ClientGone"}},
	"takes over for another request":       {leases: []string{"TakeOver"}},
	"completes for whoever asks":           {leases: []string{"Fencing", "OneTakesOver", "LostLeaseCancels", "Ceiling"}},
	"refuses what is late":                 {leases: []string{"LateCompletion"}},
	"takes its own claim for a rival's":    {leases: []string{"StepsMayBeRepeated"}},
	"extends nothing":                      {leases: []string{"Heartbeat", "Extend"}},
	"sweeps claims whose lease has passed": {leases: []string{"Expiry"}},
	"judges the key's age at a take-over":  {leases: []string{"AgeOfKey"}},
	"releases live claims":                 {leases: []string{"Keeper", "InFlight"}},
	"executes beside leases":               {leases: []string{"ModeChanges"}},
}

// Each guarantee that a store breaks is noticed by each check that is there for
// it, and each check is there for one.
func TestFlawsAreFound(t *testing.T) {
	t.Parallel()
	finds := map[string]bool{}
	find := func(test, flaw string, checks []string) {
		if checks == nil {
			return
		}
		for _, check := range checks {
			finds[test+"/"+check] = true
		}
		t.Run(test+" "+flaw, func(t *testing.T) {
			t.Parallel()
			out, err := runFlawed(t, test, flaw, strings.Join(checks, "|"))
			var exit *exec.ExitError
			for _, check := range checks {
				if !errors.As(err, &exit) || !strings.Contains(out, "--- FAIL: "+test+"/"+check+" ") {
					t.Errorf("%s passes: %v\n%s", check, err, out)
				}
			}
		})
	}
	for flaw, checks := range flaws {
		find("TestLedger", flaw, checks)
	}
	for flaw, checks := range memoryFlaws {
		find("TestMemory", flaw, checks.store)
		find("TestMemoryLeases", flaw, checks.leases)
	}
	for test, checks := range map[string]string{
		"TestLedger":       ".*",
		"TestMemory":       "List|ListBesideWrites|ReleaseEntry|Stats", // for the others see TestLedger
		"TestMemoryLeases": ".*",
	} {
		out, err := runFlawed(t, test, "", checks)
		if err != nil {
			t.Errorf("%s without a flaw: %v\n%s", test, err, out)
		}
		for _, m := range regexp.MustCompile(`--- PASS: (`+test+`/\w+) `).FindAllStringSubmatch(out, -1) {
			if !finds[m[1]] {
				t.Errorf("no flaw is found by %s", m[1])
			}
			delete(finds, m[1])
		}
	}
	for check := range finds {
		t.Errorf("%s does not pass without a flaw", check)
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
