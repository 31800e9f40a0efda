package chat

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The filters over the members of a list.

// pick replaces every value by the member that attribute names, "a.b.0"; missing
// or None leaves the values. A member that is not there becomes byDefault where
// that is not nil.
func pick(s scope, all []any, attribute, byDefault any) ([]any, error) {
	if attribute == nil || attribute == (missing{}) {
		return all, nil
	}
	out := make([]any, len(all))
	for i, v := range all {
		var err error
		if out[i], err = member(s, v, attribute, byDefault); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func member(s scope, v, path, byDefault any) (any, error) {
	parts := []any{path}
	if t, ok := text(path); ok {
		parts = nil
		for p := range strings.SplitSeq(t, ".") {
			if n, err := strconv.ParseUint(p, 10, 31); err == nil && p[0] != '+' {
				parts = append(parts, int(n))
			} else {
				parts = append(parts, p)
			}
		}
	}
	for _, part := range parts {
		if err := s.spend(1); err != nil {
			return nil, err
		}
		var err error
		if v, err = getItem(s, v, part); err != nil {
			return nil, err
		}
		if _, ok := v.(*undefined); ok && byDefault != nil {
			v = byDefault
		}
	}
	return v, nil
}

// folded is the key that sorts without regard to case.
func folded(v any, caseSensitive bool) any {
	if t, ok := text(v); ok && !caseSensitive {
		return lower(t)
	}
	return v
}

// sorted orders values by keys, keeping the order of equal ones.
func sorted(s scope, values, keys []any, down bool) ([]any, error) {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	var failed error
	slices.SortStableFunc(order, func(i, j int) int {
		if failed != nil {
			return 0
		}
		c, err := compare(s, keys[i], keys[j], "<")
		failed = err
		if down {
			return -c
		}
		return c
	})
	out := make([]any, len(values))
	for i, j := range order {
		out[i] = values[j]
	}
	return out, failed
}

func sortFilter(s scope, v any, a *args) (any, error) {
	b, err := a.bind(0, "reverse", "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	all, err := items(s, v)
	if err != nil {
		return nil, err
	}
	paths := []any{b[2]}
	if t, ok := text(b[2]); ok {
		paths = nil
		for p := range strings.SplitSeq(t, ",") {
			paths = append(paths, p)
		}
	}
	keys := make([]any, len(all))
	for i := range all {
		key := newList()
		for _, path := range paths {
			one, err := pick(s, all[i:i+1], path, nil)
			if err != nil {
				return nil, err
			}
			key.items = append(key.items, folded(one[0], flag(b[1], false)))
		}
		keys[i] = key
	}
	down, err := or(b[0], 0)
	if err != nil {
		return nil, err
	}
	out, err := sorted(s, all, keys, down != 0)
	return newList(out...), err
}

func dictSort(s scope, v any, a *args) (any, error) {
	b, err := a.bind(0, "case_sensitive", "by", "reverse")
	if err != nil {
		return nil, err
	}
	d, ok := v.(*dict)
	if !ok {
		return nil, fmt.Errorf("of a %s: want a dict", typeName(v))
	}
	by, err := or(b[1], "key")
	if err != nil {
		return nil, err
	}
	if by != "key" && by != "value" {
		return nil, errors.New(`you can only sort by either "key" or "value"`)
	}
	keys := slices.Clone(d.keys)
	if by == "value" {
		keys = slices.Clone(d.values)
	}
	for i := range keys {
		keys[i] = folded(keys[i], flag(b[0], false))
	}
	down, err := or(b[2], 0)
	if err != nil {
		return nil, err
	}
	out, err := sorted(s, d.pairs(), keys, down != 0)
	return newList(out...), err
}

func unique(s scope, v any, a *args) (any, error) {
	b, err := a.bind(0, "case_sensitive", "attribute")
	if err != nil {
		return nil, err
	}
	all, err := items(s, v)
	if err != nil {
		return nil, err
	}
	keys, err := pick(s, all, b[1], nil)
	if err != nil {
		return nil, err
	}
	seen := map[any]bool{}
	out := &sequence{kind: iterator}
	for i, key := range keys {
		h, err := hashed(folded(key, flag(b[0], false)))
		if err != nil {
			return nil, err
		}
		if !seen[h] {
			seen[h] = true
			out.items = append(out.items, all[i])
		}
	}
	return out, s.spend(len(all))
}

// extreme is min (-1) or max (1).
func extreme(sign int) func(scope, any, *args) (any, error) {
	return func(s scope, v any, a *args) (any, error) {
		b, err := a.bind(0, "case_sensitive", "attribute")
		if err != nil {
			return nil, err
		}
		all, err := items(s, v)
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			return &undefined{message: "No aggregated item, sequence was empty."}, nil
		}
		keys, err := pick(s, all, b[1], nil)
		if err != nil {
			return nil, err
		}
		best := 0
		for i := 1; i < len(keys); i++ {
			x, y := folded(keys[i], flag(b[0], false)), folded(keys[best], flag(b[0], false))
			c, err := compare(s, x, y, "<")
			if err != nil {
				return nil, err
			}
			if c*sign > 0 {
				best = i
			}
		}
		return all[best], nil
	}
}

func sum(s scope, v any, a *args) (any, error) {
	b, err := a.bind(0, "attribute", "start")
	if err != nil {
		return nil, err
	}
	all, err := items(s, v)
	if err != nil {
		return nil, err
	}
	if all, err = pick(s, all, b[0], nil); err != nil {
		return nil, err
	}
	var total any = 0
	if b[1] != (missing{}) {
		total = b[1]
	}
	if _, ok := text(total); ok {
		return nil, errors.New("sum() can't sum strings")
	}
	for _, item := range all {
		if total, err = calculate(s, "+", total, item); err != nil {
			return nil, err
		}
		if err := s.spend(1); err != nil {
			return nil, err
		}
	}
	return total, nil
}

func mapFilter(s scope, v any, a *args) (any, error) {
	if !truth(v) {
		return &sequence{kind: iterator}, nil // None too
	}
	all, err := items(s, v)
	if err != nil {
		return nil, err
	}
	if attribute, ok := a.keywords.get("attribute"); ok && len(a.positional) == 0 {
		b, err := a.bind(0, "attribute", "default")
		if err != nil {
			return nil, err
		}
		byDefault := b[1]
		if byDefault == (missing{}) {
			byDefault = nil
		}
		out, err := pick(s, all, attribute, byDefault)
		return &sequence{kind: iterator, items: out}, err
	}
	if len(a.positional) == 0 {
		return nil, errors.New("map requires a filter argument")
	}
	name, ok := text(a.positional[0])
	if !ok {
		return nil, errors.New("want a filter's name as first argument")
	}
	out := &sequence{kind: iterator, items: make([]any, len(all))}
	for i, item := range all {
		if err := s.enter(); err != nil {
			return nil, err
		}
		with := &args{positional: a.positional[1:], keywords: a.keywords}
		if out.items[i], err = runFilter(s, name, item, with); err != nil {
			return nil, err
		}
		s.leave()
	}
	return out, nil
}

// selection keeps the values, or with byMember those whose first argument's
// member, for which a test says want.
func selection(want, byMember bool) func(scope, any, *args) (any, error) {
	return func(s scope, v any, a *args) (any, error) {
		if !truth(v) {
			return &sequence{kind: iterator}, nil // None too
		}
		all, err := items(s, v)
		if err != nil {
			return nil, err
		}
		out := &sequence{kind: iterator}
		rest := a.positional
		keys := all
		if byMember && len(all) > 0 {
			if len(rest) == 0 {
				return nil, errors.New("missing parameter for attribute name")
			}
			if keys, err = pick(s, all, rest[0], nil); err != nil {
				return nil, err
			}
			rest = rest[1:]
		}
		for i, key := range keys {
			is := truth(key)
			if len(rest) > 0 {
				name, ok := text(rest[0])
				if !ok {
					return nil, errors.New("want a test's name as argument")
				}
				if is, err = runTest(s, name, key, &args{positional: rest[1:], keywords: a.keywords}); err != nil {
					return nil, err
				}
			}
			if is == want {
				out.items = append(out.items, all[i])
			}
			if err := s.spend(1); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}
