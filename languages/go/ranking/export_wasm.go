package ranking

import "fluxgate/abi"

// As the canonical ABI lays them out.
type (
	abiQuantity struct {
		kind   abi.List
		amount uint64
		unit   abi.List
	}
	abiNode struct {
		rank                          uint32
		host, path, properties, holds abi.List
	}
)

var (
	answer abi.List
	given  []float64
)

//go:wasmexport fluxgate:policy/ranking@0.1.0#scores
func exportScores(at, length uint32) uint32 {
	given = make([]float64, length)
	for i, each := range abi.Take[abiNode](at, length) {
		node := Node{Rank: each.rank, Host: each.host.Text(), Path: each.path.Text()}
		for _, property := range abi.TakeList[abi.List](each.properties) {
			node.Properties = append(node.Properties, property.Text())
		}
		for _, hold := range abi.TakeList[abiQuantity](each.holds) {
			node.Holds = append(node.Holds, Quantity{hold.kind.Text(), hold.amount, hold.unit.Text()})
		}
		given[i] = score(node)
	}
	answer = abi.List{At: 8, Length: length}
	if length > 0 {
		answer.At = abi.Address(&given[0])
	}
	return abi.Address(&answer)
}
