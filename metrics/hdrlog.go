package metrics

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Bounds on a histogram log from elsewhere. A run of ours writes 13 lines of
// some kilobytes, with 38,912 counts each.
const (
	hdrLineMax   = 1 << 20 // bytes, and so of compressed data
	hdrLinesMax  = 100_000 // intervals
	hdrTagsMax   = 64
	hdrTagMax    = 64      // bytes of a tag
	hdrCountsMax = 1 << 18 // of a histogram: five digits take 2^17 for each power of two
	hdrHeader    = 40      // bytes
	hdrEnd       = 1 << 37 // seconds since 1970, which are written in milliseconds: the year 6325
)

// HDR is a histogram of a log: of one tag, over all intervals that were read. Its
// figures are of buckets: within one of the last digit, but for the count. The
// zero value has no samples. It is not safe for concurrent use.
type HDR struct {
	Tag string // "" where a line had none
	// Start and End are seconds since 1970, of the first interval's beginning and the
	// last one's end.
	Start, End float64
	Intervals  int // lines, of all logs

	low, high int64
	digits    int
	counts    []int64
	total     int64
}

// Digits is the number of significant digits that the buckets keep.
func (h *HDR) Digits() int { return h.digits }

// Count is the number of samples.
func (h *HDR) Count() int64 { return h.total }

// Mean is the mean in the log's unit, nanoseconds in ours: every sample counts as
// the middle of its bucket. 0 without samples.
func (h *HDR) Mean() float64 { return h.library().Mean() }

// Percentile is the far end of the bucket of the sample of that rank at p percent,
// within [0, 100], in the log's unit; at 0 the near end of the first. 0 without
// samples.
func (h *HDR) Percentile(p float64) int64 { return h.library().ValueAtQuantile(p) }

// Percentiles are as Percentile, in one go.
func (h *HDR) Percentiles(p ...float64) []int64 { return h.library().ValueAtPercentilesSlice(p) }

func (h *HDR) library() *hdrhistogram.Histogram {
	if h.total == 0 {
		return hdrhistogram.New(1, 2, 1)
	}
	return hdrhistogram.Import(&hdrhistogram.Snapshot{
		LowestTrackableValue: h.low, HighestTrackableValue: h.high, SignificantFigures: int64(h.digits), Counts: h.counts,
	})
}

// Merge adds the samples of o, which stays as it is: counts add up, so that
// percentiles are those of all samples together and not averages. It is an error
// where buckets or tags differ, and for more samples than can be counted; h is
// left alone then.
func (h *HDR) Merge(o *HDR) error {
	if h.Tag != o.Tag {
		return fmt.Errorf("a histogram of %q and one of %q; want the same metric", h.Tag, o.Tag)
	}
	if h.low != o.low || h.high != o.high || h.digits != o.digits {
		return fmt.Errorf("histograms of %q have different buckets: %d to %d with %d digits, %d to %d with %d; want the same unit and range",
			h.Tag, h.low, h.high, h.digits, o.low, o.high, o.digits)
	}
	if h.total > math.MaxInt64-o.total {
		return fmt.Errorf("histograms of %q have more samples than can be counted", h.Tag)
	}
	for i, n := range o.counts {
		h.counts[i] += n
	}
	h.total += o.total
	h.Start, h.End = min(h.Start, o.Start), max(h.End, o.End)
	h.Intervals += o.Intervals
	return nil
}

// ReadHDR reads a log of compressed HdrHistograms, format 1.3 or earlier, ours or
// another program's. It returns a histogram for each tag in the order of
// their first lines; lines of one tag are intervals, which are merged.
//
// The log may come from anywhere: lines, tags, compressed and decompressed sizes
// are bounded, and a header is checked before memory is taken by its word. The
// error names the line.
func ReadHDR(r io.Reader) ([]*HDR, error) {
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, 0, 1<<16), hdrLineMax)
	var all []*HDR
	base := 0.0
	n, intervals := 0, 0
	for in.Scan() {
		n++
		text := strings.TrimSpace(in.Text())
		if rest, ok := strings.CutPrefix(text, "#[BaseTime: "); ok {
			number, _, _ := strings.Cut(rest, " ")
			seconds, err := instant(number)
			if err != nil {
				return nil, fmt.Errorf("line %d: BaseTime %w", n, err)
			}
			base = seconds
		}
		if text == "" || text[0] == '#' || strings.HasPrefix(text, `"StartTimestamp"`) {
			continue
		}
		if intervals++; intervals > hdrLinesMax {
			return nil, fmt.Errorf("line %d: more than %d intervals", n, hdrLinesMax)
		}
		h, err := hdrLine(text, base)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		i := slices.IndexFunc(all, func(o *HDR) bool { return o.Tag == h.Tag })
		if i >= 0 {
			err = all[i].Merge(h)
		} else if all = append(all, h); len(all) > hdrTagsMax {
			err = fmt.Errorf("more than %d tags", hdrTagsMax)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d: longer than %d bytes; want a histogram log", n+1, hdrLineMax)
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", n+1, err)
	}
	return all, nil
}

// instant reads seconds.
func instant(text string) (float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v < 1<<53) {
		return 0, fmt.Errorf("%.20q is no time; want seconds", text)
	}
	return v, nil
}

// hdrLine reads [Tag=NAME,]START,LENGTH,MAX,HISTOGRAM.
func hdrLine(text string, base float64) (*HDR, error) {
	tag := ""
	if rest, ok := strings.CutPrefix(text, "Tag="); ok {
		tag, text, _ = strings.Cut(rest, ",")
		if tag == "" || len(tag) > hdrTagMax || strings.ContainsFunc(tag, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) {
			return nil, fmt.Errorf("the tag %.20q is no name; want up to %d printable characters", tag, hdrTagMax)
		}
	}
	fields := strings.SplitN(text, ",", 4)
	if len(fields) != 4 {
		return nil, errors.New("no interval of a histogram log; want start, length, largest value and histogram, with commas between")
	}
	start, err := instant(fields[0])
	if err != nil {
		return nil, err
	}
	length, err := instant(fields[1])
	if err != nil {
		return nil, err
	}
	h, err := decodeHDR(fields[3])
	if err != nil {
		return nil, err
	}
	h.Tag, h.Intervals, h.Start, h.End = tag, 1, base+start, base+start+length
	if h.End >= hdrEnd {
		return nil, fmt.Errorf("it ends %.0f seconds after 1970; want less than %d", h.End, int64(hdrEnd))
	}
	return h, nil
}

// The cookies of version 2, without the bits that vary.
const (
	hdrCookie           = 0x1c849303
	hdrCompressedCookie = 0x1c849304
	hdrCookieMask       = ^uint32(0xf0)
)

// decodeHDR reads a compressed histogram of version 2 in base64.
func decodeHDR(text string) (*HDR, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("the histogram is not in base64")
	}
	if len(data) < 8 || binary.BigEndian.Uint32(data)&hdrCookieMask != hdrCompressedCookie {
		return nil, errors.New("no compressed histogram of version 2")
	}
	if n := binary.BigEndian.Uint32(data[4:]); uint64(n) != uint64(len(data)-8) {
		return nil, fmt.Errorf("the histogram has %d bytes, and says %d", len(data)-8, n)
	}
	z, err := zlib.NewReader(bytes.NewReader(data[8:]))
	if err != nil {
		return nil, errors.New("the histogram is not compressed by zlib")
	}
	head := make([]byte, hdrHeader)
	if _, err := io.ReadFull(z, head); err != nil {
		return nil, errors.New("the histogram's header cannot be read")
	}
	h, err := hdrHead(head)
	if err != nil {
		return nil, err
	}
	// No count takes more than 9 bytes: what decompresses to more is no histogram.
	most := int64(9 * len(h.counts))
	said := int64(binary.BigEndian.Uint32(head[4:]))
	payload, err := io.ReadAll(io.LimitReader(z, most+1))
	if err != nil {
		return nil, errors.New("the histogram cannot be decompressed")
	}
	if int64(len(payload)) > most || int64(len(payload)) != said {
		return nil, fmt.Errorf("the histogram's counts take %d bytes or more, and it says %d for %d counts", len(payload), said, len(h.counts))
	}
	return h, h.fill(payload)
}

// hdrHead checks a header, and makes an empty histogram by it.
func hdrHead(head []byte) (*HDR, error) {
	be := binary.BigEndian
	h := &HDR{digits: int(be.Uint32(head[12:])), low: int64(be.Uint64(head[16:])), high: int64(be.Uint64(head[24:]))}
	ratio := math.Float64frombits(be.Uint64(head[32:]))
	if be.Uint32(head)&hdrCookieMask != hdrCookie || be.Uint32(head[8:]) != 0 || ratio != 1 {
		return nil, errors.New("no plain histogram of version 2: shifted, scaled or of another kind")
	}
	if h.digits < 1 || h.digits > 5 || h.low < 1 || h.high < 2 || h.low > h.high/2 {
		return nil, fmt.Errorf("a histogram of %d to %d with %d digits; want 1 or more, twice that or more, and 1 to 5 digits", h.low, h.high, h.digits)
	}
	// Half of the sub-buckets for each power of two, twice for the first.
	sub := bits.Len64(2*uint64(math.Pow10(h.digits)) - 1)
	unit := bits.Len64(uint64(h.low)) - 1
	powers := max(bits.Len64(uint64(h.high))-sub-unit, 0) + 1
	n := (powers + 1) << (sub - 1)
	if n > hdrCountsMax || sub+unit > 62 {
		return nil, fmt.Errorf("a histogram of %d to %d with %d digits has %d counts; want %d at most", h.low, h.high, h.digits, n, hdrCountsMax)
	}
	h.counts = make([]int64, n)
	return h, nil
}

// fill reads the counts: a negative number is so many zeros.
func (h *HDR) fill(payload []byte) error {
	for i := 0; len(payload) > 0; {
		v, n := zigzag(payload)
		if n == 0 {
			return errors.New("the histogram's last count is cut off")
		}
		payload = payload[n:]
		switch {
		case v < 0 && v >= -int64(len(h.counts)-i):
			i += int(-v)
		case v >= 0 && i < len(h.counts) && h.total <= math.MaxInt64-v:
			h.counts[i] = v
			h.total += v
			i++
		default:
			return fmt.Errorf("the histogram has counts beyond its %d, or more samples than can be counted", len(h.counts))
		}
	}
	return nil
}

// zigzag reads a number of up to 9 bytes; n is 0 where it is cut off.
func zigzag(b []byte) (v int64, n int) {
	var u uint64
	for i := 0; i < 9; i++ {
		if i == len(b) {
			return 0, 0
		}
		if i == 8 {
			u |= uint64(b[i]) << 56
		} else {
			u |= uint64(b[i]&0x7f) << (7 * i)
		}
		n = i + 1
		if b[i] < 0x80 {
			break
		}
	}
	return int64(u>>1) ^ -int64(u&1), n
}

// WriteHDRs writes histograms as a log, as [WriteHDR] does those of a run.
func WriteHDRs(w io.Writer, all []*HDR) error {
	from := math.Inf(1)
	for _, h := range all {
		from = min(from, h.Start)
	}
	if len(all) == 0 {
		from = 0
	}
	lines := make([]*hdrhistogram.Histogram, 0, len(all))
	for _, h := range all {
		l := h.library()
		l.SetTag(h.Tag)
		l.SetStartTimeMs(int64(math.Round(h.Start * 1000)))
		l.SetEndTimeMs(int64(math.Round(h.End * 1000)))
		lines = append(lines, l)
	}
	return writeLog(w, int64(math.Round(from*1000)), lines)
}

// writeLog writes lines after a head; from is in milliseconds since 1970.
func writeLog(w io.Writer, from int64, lines []*hdrhistogram.Histogram) error {
	log := hdrhistogram.NewHistogramLogWriter(w)
	if err := log.OutputLogFormatVersion(); err != nil {
		return err
	}
	if err := log.OutputStartTime(from); err != nil {
		return err
	}
	if err := log.OutputLegend(); err != nil {
		return err
	}
	for _, h := range lines {
		if err := log.OutputIntervalHistogram(h); err != nil {
			return fmt.Errorf("histogram %s: %w", h.Tag(), err)
		}
	}
	return nil
}
