package dataset

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/servebench/servebench/dataset/nprand"
	"github.com/servebench/servebench/tokenize"
)

const (
	// A remote count waits for the network and not for a core.
	countWorkers = 16
	// Most texts are right after one correction, that for special tokens.
	countTries = 8
)

// wordPrompts makes texts of short English words, about one token each in any
// vocabulary, where the vocabulary is unknown. Lengths come from one numpy
// Generator as vLLM draws them, then the prefix; each prompt has a generator of
// its own, so that a correction of one leaves the others alone.
//
// Where tok is set, words are added or taken away until tok counts the length
// asked for, special tokens included: that is what the server will report.
type wordPrompts struct {
	spec   Spec
	tok    tokenize.Tokenizer // may be nil
	excess int                // tokens more or fewer than asked, after all tries
}

func (g *wordPrompts) prompts(ctx context.Context, seed uint64, n int, emit func(int, *Request) error) ([]Request, error) {
	rng := nprand.NewGenerator(seed)
	in, out := g.spec.lengths(rng, g.spec.InputLen, n)
	prefix := appendWords(nil, rng, g.spec.PrefixLen)
	reqs := make([]Request, n)
	var excess atomic.Int64 // whoever emit is may empty the request
	err := parallel(ctx, countWorkers, n, func(ctx context.Context, i int) (err error) {
		own := nprand.NewGenerator(derive(fmt.Sprintf("words %d", i), seed))
		reqs[i], err = g.one(ctx, own, prefix, int(in[i]))
		reqs[i].OutputTokens = int(out[i])
		excess.Add(int64(reqs[i].InputTokens-len(prefix)) - in[i])
		if err != nil || emit == nil {
			return err
		}
		return emit(i, &reqs[i])
	})
	g.excess += int(excess.Load())
	return reqs, err
}

func (g *wordPrompts) one(ctx context.Context, rng *nprand.Generator, prefix []string, n int) (Request, error) {
	want := len(prefix) + n
	text := append(make([]string, 0, want), prefix...)
	text = appendWords(text, rng, n)
	for try := 1; ; try++ {
		r := Request{Prompt: strings.Join(text, " "), InputTokens: want}
		if g.tok == nil {
			return r, nil
		}
		ids, err := g.tok.Encode(ctx, r.Prompt, true)
		if err != nil {
			return r, fmt.Errorf("count random prompt: %w", err)
		}
		r.InputTokens = len(ids)
		switch {
		case len(ids) == want || try == countTries:
			return r, nil
		case len(ids) < want:
			text = appendWords(text, rng, want-len(ids))
		default:
			text = text[:max(min(1, len(text)), len(text)-(len(ids)-want))]
		}
	}
}

func (g *wordPrompts) doubts() []string {
	return lengthDoubt(g.excess)
}

func appendWords(text []string, rng *nprand.Generator, n int) []string {
	for _, at := range rng.Integers(0, int64(len(words)), n) {
		text = append(text, words[at])
	}
	return text
}

// words are one token each in Qwen3's vocabulary, with and without a space before
// them, and common enough to be that in most. Order and number are part of
// "servebench-words-1".
var words = strings.Fields(`
able about above after again air all also always and animal answer any area around art ask away baby back bad ball
bank base bear beat bed been before best better big bird black blood blue board boat body book both box boy bread
break bring brown build business busy buy call came car care carry case catch cause center change child church city
class clear close cold color come common cook cool copy corn corner cost could country cover cross cry cut dance dark
day dead deal deep did door down draw dream drive drop dry during each early earth east eat egg end even ever every
eye face fact fall family far farm fast father feel few field fight fill find fine finger fire first fish five floor
fly follow food foot force form forward four free fresh friend from front fruit full game girl give glass gold good
grass great green ground group grow hair half hand happy hard hat head hear heart heat heavy help here high hill
history hold home hope horse hot hour house how idea inside job join jump just keep key kind king know lake land
language large last late law lead learn leave left leg length less letter life light like line list little live long
look lost love low machine made main make man many map mark market matter may mean meet middle mile mind minute money
month moon more most mother mouth move much music name near need never new next night nine noise north note nothing
number off office often oil old once only open order other our out over own page paper park part party pass past path
pay people phone picture place plan plant play point power press pretty problem public pull push question quick quiet
race rain reach read ready real reason red rest rich ride right ring rise river road rock roll room round rule run
safe said salt same sand say school science sea season seat second see seed sell send sense serve set seven shape
sharp ship shop short should show side silver simple sing sit six size skin sky sleep slow small snow soft some song
soon sound south space special spring square stand star start state stay step stone stop store story street strong
study such summer sun sure table tail take talk team tell ten test thank thing think third three time tiny today too
took top town trade train travel tree trip true try turn two under until use very view visit voice wait walk wall war
warm wash watch water wave way wear weather week well west what wheel when white wide wife wild will wind window
winter wish with woman wood word work world write year yellow yes young zero
`)
