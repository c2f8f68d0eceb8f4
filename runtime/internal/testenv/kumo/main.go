// Command kumo serves the DynamoDB of github.com/sivchari/kumo, which has
// transactions and forgets all data when it ends, on a free port of the
// loopback interface. It prints the address.
package main

import (
	"fmt"

	"github.com/sivchari/kumo"
)

func main() {
	fmt.Println(kumo.NewServer().URL)
	select {}
}
