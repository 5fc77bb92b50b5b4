import { expect, it } from 'vitest';
import { changedValues, controlOf, enteredValues, type FieldSpec, KINDS } from './fieldSpecs.ts';

const SPECS: readonly FieldSpec[] = [
  { name: 'name', label: 'Name', kind: 'text' },
  { name: 'limit_micro_usd', label: 'Budget', kind: 'usd' },
  { name: 'max_parallel', label: 'In parallel', kind: 'number' },
  { name: 'allowed_models', label: 'Models', kind: 'lines' },
  { name: 'self_service', label: 'Self-service', kind: 'switch' },
  { name: 'constraints.min_score', label: 'Score', kind: 'number' },
  { name: 'targets', label: 'Targets', kind: 'targets' },
  { name: 'upstream_names', label: 'Names', kind: 'pairs' },
];
const BEFORE = {
  name: 'team',
  limit_micro_usd: 12_345_678,
  max_parallel: null,
  allowed_models: ['openai/*', 'mock/echo'],
  self_service: true,
  constraints: { min_score: 0.5, context_window: 1_000 },
  targets: [{ model: 'mock/echo', weight: 2 }, { model: 'openai/*' }],
  upstream_names: { 'openai/gpt-4o': 'our gpt', 'mock/echo': 'echo' },
};
const shown = Object.fromEntries(
  SPECS.map(({ name, kind }) => [
    name,
    KINDS[kind].show(name === 'constraints.min_score' ? 0.5 : BEFORE[name as keyof typeof BEFORE]),
  ]),
);

it('finds no change in what it showed, nor in the line breaks of a form', () => {
  const sent = { ...shown, allowed_models: 'openai/*\r\nmock/echo' };
  expect(changedValues(SPECS, BEFORE, sent)).toEqual({});
});

it('sends only what was changed, and null for what was emptied', () => {
  const texts = {
    ...shown,
    limit_micro_usd: '0.000001',
    name: '',
    allowed_models: '',
    self_service: '',
    targets: 'mock/echo\n a/b  3 ',
    upstream_names: ' openai/gpt-4o   our gpt \n\nmock/echo e',
    'constraints.min_score': '',
  };
  expect(changedValues(SPECS, BEFORE, texts)).toEqual({
    limit_micro_usd: 1,
    name: null,
    allowed_models: [],
    self_service: false,
    targets: [{ model: 'mock/echo' }, { model: 'a/b', weight: 3 }],
    upstream_names: { 'openai/gpt-4o': 'our gpt', 'mock/echo': 'e' },
    constraints: { context_window: 1_000 },
  });
});

it('leaves the API its defaults for what was not entered', () => {
  const texts = { name: 'new', limit_micro_usd: ' ', 'constraints.min_score': '0.7', self_service: '' };
  expect(enteredValues(SPECS, texts)).toEqual({
    name: 'new',
    self_service: false,
    constraints: { min_score: 0.7 },
  });
});

it('reads amounts of money to the nano-dollar', () => {
  const read = KINDS.money.read('0.0000025');
  expect(read).toEqual({ currency_code: 'USD', units: 0, nanos: 2_500 });
  expect(KINDS.money.show({ units: 12, nanos: 500_000_000 })).toBe('12.5');
  expect(KINDS.money.read('')).toBeNull();
});

it('finds the control that an error is about', () => {
  const names = SPECS.map(({ name }) => name);
  expect(
    ['targets[1].model', 'targets/0/model', 'constraints.min_score', 'constraints.x', 'if-match', null].map(
      (param) => controlOf(param, names),
    ),
  ).toEqual(['targets', 'targets', 'constraints.min_score', undefined, undefined, undefined]);
});

it('empties an object that may be null with its last member', () => {
  const specs = (['a', 'b'] as const).map(
    (member): FieldSpec => ({ name: `both.${member}`, label: member, kind: 'choice', ofNullable: true }),
  );
  const before = { both: { a: '1', b: '2' } };
  expect(changedValues(specs, before, { 'both.a': '', 'both.b': '2' })).toEqual({ both: { b: '2' } });
  expect(changedValues(specs, before, { 'both.a': '', 'both.b': '' })).toEqual({ both: null });
  expect(changedValues(specs, { both: null }, { 'both.a': '', 'both.b': '3' })).toEqual({ both: { b: '3' } });
});
