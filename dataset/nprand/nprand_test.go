package nprand_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/servebench/servebench/dataset/nprand"
)

// golden is testdata/golden.json, written by testdata/golden.py with numpy and
// CPython themselves.
type golden struct {
	Integers []struct {
		Seed      string
		Low, High int64
		N         int
		First     []int64
		SHA256    string
		Random    string
	}
	Gammas []struct {
		Seed  uint32
		Shape float64
		Scale string
		Tenth []string
		Next  string
	}
	CPython []struct {
		Seed   int64
		First  []int64
		Order  string
		Picks  string
		Wide   string
		Random string
	}
	Samples []struct {
		Seed    uint32
		N       int
		Order   string
		Some    string
		Again   string
		Choices string
		Random  string
	}
	Schedules []struct {
		Shape   float64
		Offsets []float64
	}
	Randints []struct {
		Seed      uint32
		Low, High int64
		N         int
		First     []int64
		SHA256    string
		Random    string
	}
	Mixed []struct {
		Seed           string
		N              int
		P              []float64
		Count          int64
		Picks, Padding []int64
		Pixels, Random string
	}
	Choices []struct {
		Seed   int64
		N      int
		First  []int64
		SHA256 string
		Random string
	}
	Hashes []struct{ Text, Hash string }
}

func readGolden(t *testing.T) (g golden) {
	t.Helper()
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func digest(values []int64) string {
	h := sha256.New()
	for _, v := range values {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(v)))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func hexFloat(t *testing.T, s string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestGeneratorDrawsNumpysIntegersOverAllPaths(t *testing.T) {
	seed, g := "", (*nprand.Generator)(nil)
	for _, row := range readGolden(t).Integers {
		if row.Seed != seed {
			seed = row.Seed
			n, err := strconv.ParseUint(seed, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			g = nprand.NewGenerator(n)
		}
		got := g.Integers(row.Low, row.High, row.N)
		if digest(got) != row.SHA256 {
			t.Errorf("seed %s [%d, %d): begins %v, want %v", seed, row.Low, row.High, got[:4], row.First)
		}
		if got, want := g.Random(), hexFloat(t, row.Random); got != want {
			t.Errorf("seed %s after [%d, %d): random %v, want %v", seed, row.Low, row.High, got, want)
		}
	}
}

// The rows of bench-serve.md section 6a: the three array draws of vLLM's random
// data set.
func TestGeneratorDrawsVLLMsGoldenRows(t *testing.T) {
	type draw struct {
		low, high int64
		want      []int64
	}
	for _, c := range []struct {
		name  string
		seed  uint64
		draws []draw
	}{
		{"numpy's documented first ten", 42, []draw{{0, 10, []int64{0, 7, 6, 4, 4, 8, 0, 6, 2, 0}}}},
		{"the same of seed 0", 0, []draw{{0, 10, []int64{8, 6, 5, 2, 3, 0, 0, 0, 1, 8}}}},
		{"fixed lengths consume nothing, Qwen vocabulary", 0, []draw{
			{1024, 1025, slices.Repeat([]int64{1024}, 8)}, {128, 129, slices.Repeat([]int64{128}, 8)},
			{0, 151643, []int64{128991, 96590, 77510, 40911, 46680, 6213, 11409, 2506}}}},
		{"gpt2 vocabulary", 0, []draw{{0, 50257, []int64{42749, 32011, 25688, 13558, 15470, 2059, 3781, 830}}}},
		{"ratio 0.3", 0, []draw{
			{716, 1333, []int64{1240, 1109, 1031, 882, 905, 741, 762, 726}},
			{89, 168, []int64{102, 153, 140, 161, 128, 136, 165, 146}},
			{0, 151643, []int64{95879, 82436, 84907, 141797, 42057, 123718, 101733, 415}}}},
		{"ratios 0.5 and 0.2", 1, []draw{
			{49, 150, []int64{96, 100, 125, 144, 52, 63, 132, 144}},
			{40, 61, []int64{45, 46, 58, 48, 45, 57, 45, 48}},
			{0, 128000, []int64{82410, 70347, 10974, 3527, 110795, 96449, 107249, 68882}}}},
		{"an odd count leaves half a word", 0, []draw{
			{0, 151643, []int64{128991, 96590, 77510, 40911, 46680}},
			{0, 151643, []int64{6213, 11409, 2506, 26578}}}},
	} {
		g := nprand.NewGenerator(c.seed)
		for _, d := range c.draws {
			if got := g.Integers(d.low, d.high, len(d.want)); !slices.Equal(got, d.want) {
				t.Errorf("%s: [%d, %d) = %v, want %v", c.name, d.low, d.high, got, d.want)
			}
		}
	}
}

func TestGeneratorRandom(t *testing.T) {
	for seed, want := range map[uint64]float64{0: .6369616873214543, 42: .7739560485559633, 12345: .22733602246716966} {
		if got := nprand.NewGenerator(seed).Random(); got != want {
			t.Errorf("seed %d: %v, want %v", seed, got, want)
		}
	}
}

// Integer and uniform draws are exact, so every draw takes numpy's branch; the
// value may differ by the last bits of log and pow. On linux/amd64 against
// numpy 2.4 (glibc) the share of differing values is printed with -v.
func TestLegacyGammaIsNumpysWithin1e12(t *testing.T) {
	differ, total, worst := 0, 0, 0.
	for _, row := range readGolden(t).Gammas {
		l := nprand.NewLegacy(row.Seed)
		scale := hexFloat(t, row.Scale)
		for i := range 1000 {
			got := l.Gamma(row.Shape, scale)
			if i%10 != 9 {
				continue
			}
			want := hexFloat(t, row.Tenth[i/10])
			total++
			if got != want {
				differ++
			}
			rel := math.Abs(got-want) / want
			if worst = max(worst, rel); rel > 1e-12 {
				t.Errorf("seed %d shape %v draw %d: %v, want %v", row.Seed, row.Shape, i, got, want)
			}
		}
		if got, want := l.Random(), hexFloat(t, row.Next); got != want {
			t.Errorf("seed %d shape %v: the stream went another way: %v, want %v", row.Seed, row.Shape, got, want)
		}
	}
	t.Logf("%d of %d values differ from numpy's, by %.2g relative at most", differ, total, worst)
}

// Section 4a of bench-serve.md: vLLM's arrival times for 8 requests at 10/s,
// seed 0, scaled so that the last one is at 0.8 s.
func TestLegacyGammaSumsToVLLMsSchedule(t *testing.T) {
	documented := map[float64][]float64{
		1:   {.078118, .201392, .29201, .369277, .423364, .525263, .581753, .8},
		0.5: {.107289, .240789, .304132, .37171, .682143, .798075, .799856, .8},
		2:   {.187066, .268553, .466114, .491472, .54742, .629505, .733429, .8},
	}
	for _, row := range readGolden(t).Schedules {
		l := nprand.NewLegacy(0)
		var offsets []float64
		now := 0.
		for range 8 {
			now += l.Gamma(row.Shape, 1/(10*row.Shape))
			offsets = append(offsets, now)
		}
		for i := range offsets {
			got := offsets[i] * (.8 / now)
			if math.Abs(got-row.Offsets[i]) > 1e-12 {
				t.Errorf("shape %v, request %d: %v, numpy has %v", row.Shape, i, got, row.Offsets[i])
			}
			if math.Abs(got-documented[row.Shape][i]) > 5.1e-7 { // six digits were written down
				t.Errorf("shape %v, request %d: %v, documented %v", row.Shape, i, got, documented[row.Shape][i])
			}
		}
	}
}

func TestPythonShufflesAndChoosesAsCPython(t *testing.T) {
	for _, row := range readGolden(t).CPython {
		p := nprand.NewPython(row.Seed)
		order := make([]int64, 1000)
		for i := range order {
			order[i] = int64(i)
		}
		p.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		if digest(order) != row.Order {
			t.Errorf("seed %d: shuffled to %v, want %v", row.Seed, order[:8], row.First)
		}
		var picks, wide []int64
		for n := 1; n < 200; n++ {
			picks = append(picks, int64(p.Choice(n)))
		}
		for range 50 {
			wide = append(wide, int64(p.Choice(1<<62+12345)))
		}
		if digest(picks) != row.Picks || digest(wide) != row.Wide {
			t.Errorf("seed %d: choices differ: %v %v", row.Seed, picks[:8], wide[:2])
		}
		if got, want := p.Random(), hexFloat(t, row.Random); got != want {
			t.Errorf("seed %d: random %v, want %v", row.Seed, got, want)
		}
	}
}

// pandas' DataFrame.sample, with and without replacement, and random.choices.
func TestSamplesArePandasAndPythons(t *testing.T) {
	wide := func(values []int) []int64 {
		out := make([]int64, len(values))
		for i, v := range values {
			out[i] = int64(v)
		}
		return out
	}
	for _, row := range readGolden(t).Samples {
		order := nprand.NewLegacy(row.Seed).Permutation(row.N)
		if digest(wide(order)) != row.Order || digest(wide(order[:(row.N+1)/2])) != row.Some {
			t.Errorf("seed %d, %d rows: another order", row.Seed, row.N)
		}
		if digest(wide(nprand.NewLegacy(row.Seed).Choices(row.N, 2*row.N+1))) != row.Again {
			t.Errorf("seed %d, %d rows: other rows with replacement", row.Seed, row.N)
		}
		p := nprand.NewPython(int64(row.Seed))
		choices := p.Choices(row.N, 777)
		p.Choices(row.N, -5)
		if got, want := p.Random(), hexFloat(t, row.Random); digest(wide(choices)) != row.Choices || got != want {
			t.Errorf("seed %d, %d elements: other choices", row.Seed, row.N)
		}
	}
}

// Section 6b of bench-serve.md.
func TestPythonShuffleOfTen(t *testing.T) {
	order := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	nprand.NewPython(0).Shuffle(10, func(i, j int) { order[i], order[j] = order[j], order[i] })
	if want := []int{7, 8, 1, 5, 3, 4, 2, 0, 9, 6}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}

func TestLegacyIntegersAreNumpysRandint(t *testing.T) {
	var l *nprand.Legacy
	var seed uint32
	for _, row := range readGolden(t).Randints {
		if l == nil || row.Seed != seed {
			seed, l = row.Seed, nprand.NewLegacy(row.Seed)
		}
		if got := l.Integers(row.Low, row.High, row.N); digest(got) != row.SHA256 {
			t.Errorf("seed %d [%d, %d): begins %v, want %v", seed, row.Low, row.High, got[:4], row.First)
		}
		if got, want := l.Random(), hexFloat(t, row.Random); got != want {
			t.Errorf("seed %d after [%d, %d): random %v, want %v", seed, row.Low, row.High, got, want)
		}
	}
}

// The draws of random-mm in turns; between them half words wait or do not.
func TestGeneratorDrawsNumpysCountsChoicesAndBytes(t *testing.T) {
	seed, g := "", (*nprand.Generator)(nil)
	for _, row := range readGolden(t).Mixed {
		if row.Seed != seed {
			seed = row.Seed
			n, err := strconv.ParseUint(seed, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			g = nprand.NewGenerator(n)
		}
		count := g.Integers(0, 5, 1)[0]
		var picks []int64
		for range row.Picks {
			picks = append(picks, int64(g.Choice(row.P)))
		}
		skipped, pixels := *g, make([]byte, row.N)
		g.Bytes(pixels)
		skipped.SkipBytes(row.N)
		sum := sha256.Sum256(pixels)
		if count != row.Count || !slices.Equal(picks, row.Picks) || hex.EncodeToString(sum[:]) != row.Pixels {
			t.Errorf("seed %s, %d bytes: count %d, picks %v; want %d, %v; or the bytes differ", seed, row.N, count, picks, row.Count, row.Picks)
		}
		for how, g := range map[string]*nprand.Generator{"drawing": g, "skipping": &skipped} {
			if got := g.Integers(0, 50257, 3); !slices.Equal(got, row.Padding) {
				t.Errorf("seed %s after %s %d bytes: %v, want %v", seed, how, row.N, got, row.Padding)
			}
		}
		if got, want := g.Random(), hexFloat(t, row.Random); got != want {
			t.Errorf("seed %s after %d bytes: random %v, want %v", seed, row.N, got, want)
		}
	}
}

func TestPythonChoicesAreCPythons(t *testing.T) {
	for _, row := range readGolden(t).Choices {
		p := nprand.NewPython(row.Seed)
		var got []int64
		for _, at := range p.Choices(row.N, 500) {
			got = append(got, int64(at))
		}
		if digest(got) != row.SHA256 || p.Random() != hexFloat(t, row.Random) {
			t.Errorf("seed %d of %d: begins %v, want %v", row.Seed, row.N, got[:4], row.First)
		}
	}
}

func TestStringHashIsCPythonsWithoutSalt(t *testing.T) {
	for _, row := range readGolden(t).Hashes {
		if got := strconv.FormatInt(nprand.StringHash(row.Text), 10); got != row.Hash {
			t.Errorf("%q: %s, want %s", row.Text, got, row.Hash)
		}
	}
}

func TestCallersBugsPanic(t *testing.T) {
	for name, f := range map[string]func(){
		"empty range":     func() { nprand.NewGenerator(0).Integers(3, 3, 1) },
		"negative shape":  func() { nprand.NewLegacy(0).Gamma(-1, 1) },
		"NaN scale":       func() { nprand.NewLegacy(0).Gamma(1, math.NaN()) },
		"infinite shape":  func() { nprand.NewLegacy(0).Gamma(math.Inf(1), 1) },
		"choice of none":  func() { nprand.NewPython(0).Choice(0) },
		"negative choice": func() { nprand.NewPython(0).Choice(-1) },
		"empty randint":   func() { nprand.NewLegacy(0).Integers(3, 3, 1) },
		"choices of none": func() { nprand.NewPython(0).Choices(0, 1) },
		"no probability":  func() { nprand.NewGenerator(0).Choice([]float64{0}) },
		"negative p":      func() { nprand.NewGenerator(0).Choice([]float64{2, -1}) },
		"NaN p":           func() { nprand.NewGenerator(0).Choice([]float64{math.NaN()}) },
		"rows of none":    func() { nprand.NewLegacy(0).Choices(0, 1) },
		"negative order":  func() { nprand.NewLegacy(0).Permutation(-1) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

func TestGammaOfShapeZeroIsZero(t *testing.T) {
	if got := nprand.NewLegacy(1).Gamma(0, 5); got != 0 {
		t.Errorf("got %v", got)
	}
}

func ExampleGenerator_Integers() {
	// numpy.random.default_rng(42).integers(0, 10, 10)
	fmt.Println(nprand.NewGenerator(42).Integers(0, 10, 10))
	// Output: [0 7 6 4 4 8 0 6 2 0]
}

func ExampleLegacy_Gamma() {
	// numpy.random.seed(0); numpy.random.gamma(2.0, 0.5)
	fmt.Printf("%.12f\n", nprand.NewLegacy(0).Gamma(2, .5))
	// Output: 2.569414788170
}

func ExamplePython_Choice() {
	// random.seed(0); [random.choice(range(100)) for _ in range(5)]
	p := nprand.NewPython(0)
	fmt.Println(p.Choice(100), p.Choice(100), p.Choice(100), p.Choice(100), p.Choice(100))
	// Output: 49 97 53 5 33
}

func ExampleStringHash() {
	// PYTHONHASHSEED=0 python -c 'print(hash("1:16"))'
	fmt.Println(nprand.StringHash("1:16"))
	// Output: -5083744301990941600
}

func BenchmarkChoices(b *testing.B) {
	for b.Loop() {
		nprand.NewPython(4276743264).Choices(151660, 16)
	}
}

func BenchmarkBytes(b *testing.B) {
	g, pixels := nprand.NewGenerator(0), make([]byte, 720*1280*3)
	for b.Loop() {
		g.Bytes(pixels)
	}
}

func BenchmarkIntegers(b *testing.B) {
	g := nprand.NewGenerator(0)
	for b.Loop() {
		g.Integers(0, 151643, 1000)
	}
}

func BenchmarkGamma(b *testing.B) {
	for _, shape := range []float64{.5, 1, 2} {
		b.Run(fmt.Sprintf("shape=%v", shape), func(b *testing.B) {
			l := nprand.NewLegacy(0)
			for b.Loop() {
				l.Gamma(shape, 1)
			}
		})
	}
}
