// Package ranking exports the ability to rank nodes for jobs whose placement is `ranked`; ranking.wit beside the package
// fluxgate documents it. It was added after the release of 0.1.0: a policy that imports this package does not load on
// older hosts.
package ranking

// Quantity is so much of one kind of resource. Unit is empty for what is counted one by one.
type Quantity struct {
	Kind   string
	Amount uint64
	Unit   string
}

// Node is a node, whoever holds something of it.
type Node struct {
	// Rank is the broker rank.
	Rank uint32
	// Path is where it is, from the top: /cluster0/rack3/node7. Machines without racks have none.
	Host, Path string
	// Properties are in alphabetical order.
	Properties []string
	// Holds is what is in it, by kind.
	Holds []Quantity
}

// Has says whether it has a property.
func (n Node) Has(property string) bool {
	for _, each := range n.Properties {
		if each == property {
			return true
		}
	}
	return false
}

// Amount has the units of a kind in it, 0 if there are none.
func (n Node) Amount(kind string) (sum uint64) {
	for _, each := range n.Holds {
		if each.Kind == kind {
			sum += each.Amount
		}
	}
	return sum
}

var score = func(Node) float64 { return 0 }

// By sets the function that gives each node its score. Smaller ones are taken first; NaN is a breach of the contract.
func By(f func(Node) float64) { score = f }
