type Values = Readonly<Record<string, unknown>>;
export type Choices = readonly (readonly [value: string, text: string])[];

/** A field of a resource, as a form shows it. */
export interface FieldSpec {
  /** Its name in the API; `constraints.min_score` is a member of an object. */
  readonly name: string;
  readonly label: string;
  readonly kind: keyof typeof KINDS;
  readonly hint?: string;
  readonly required?: boolean;
  /** Of a member: its object is null once no member is left. */
  readonly ofNullable?: boolean;
  readonly choices?: Choices;
  /** What the form of a new resource starts with. */
  readonly initial?: string;
}

interface Kind {
  /** The text of a form's control. */
  readonly show: (value: unknown) => string;
  /** The value for the API; null: nothing was entered. */
  readonly read: (text: string) => unknown;
}

const orNull = (read: (text: string) => unknown) => (text: string) =>
  text.trim() === '' ? null : read(text.trim());
const plain: Kind = { show: (value) => String(value ?? ''), read: orNull((text) => text) };
const lines = (show: (value: never) => string, read: (line: string) => unknown): Kind => ({
  show: (value) => ((value ?? []) as never[]).map(show).join('\n'),
  read: (text) =>
    text
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '')
      .map(read),
});

/** How each kind of field is shown and read. */
export const KINDS = {
  text: plain,
  secret: plain,
  choice: plain,
  number: { show: plain.show, read: orNull(Number) },
  usd: {
    show: (value) => (typeof value === 'number' ? String(value / 1_000_000) : ''),
    read: orNull((text) => Math.round(Number(text) * 1_000_000)),
  },
  /** A day, from its first moment in UTC. */
  date: {
    show: (value) => (typeof value === 'string' ? value.slice(0, 10) : ''),
    read: orNull((text) => `${text}T00:00:00.000Z`),
  },
  /** An amount of the type Money. */
  money: {
    show: (value) => {
      if (typeof value !== 'object' || value === null) return '';
      const { units, nanos } = value as { units: number; nanos: number };
      return String(units + nanos / 1_000_000_000);
    },
    read: orNull((text) => {
      const units = Math.floor(Number(text));
      const nanos = Math.round((Number(text) - units) * 1_000_000_000);
      return { currency_code: 'USD', units, nanos };
    }),
  },
  lines: lines(String, (line) => line),
  numbers: lines(String, Number),
  targets: lines(
    ({ model, weight }: { model: string; weight?: number }) =>
      weight === undefined ? model : `${model} ${weight}`,
    (line) => {
      const [model = '', weight] = line.split(/\s+/);
      return weight === undefined ? { model } : { model, weight: Number(weight) };
    },
  ),
  /** An object of texts: a name, a space and its text on each line. */
  pairs: {
    show: (value) =>
      Object.entries((value ?? {}) as Record<string, string>)
        .map((pair) => pair.join(' '))
        .join('\n'),
    read: (text) => {
      const pairs = text.split('\n').map((line) => line.trim().split(/\s+(.*)/s));
      return Object.fromEntries(pairs.filter(([name]) => name).map(([name = '', of = '']) => [name, of]));
    },
  },
  switch: { show: (value) => (value === true ? 'on' : ''), read: (text) => text === 'on' },
} satisfies Record<string, Kind>;

const isEmpty = (value: unknown) =>
  value === null || (typeof value === 'object' && Object.keys(value).length === 0);

export function valueAt(values: Values, name: string): unknown {
  return name.split('.').reduce<unknown>((at, part) => (at as Values | null | undefined)?.[part], values);
}

/** What a form's texts say of a new resource: fields without anything entered keep the API's default. */
export function enteredValues(specs: readonly FieldSpec[], texts: Readonly<Record<string, string>>): Values {
  const entered: Record<string, unknown> = {};
  for (const { name, kind } of specs) {
    const value = KINDS[kind].read(texts[name] ?? '');
    if (isEmpty(value)) continue;
    const [top = '', member] = name.split('.');
    entered[top] = member === undefined ? value : { ...(entered[top] as object), [member]: value };
  }
  return entered;
}

/** The fields that a form changes, whole; a member that was emptied is left out of its object. */
export function changedValues(
  specs: readonly FieldSpec[],
  before: Values,
  texts: Readonly<Record<string, string>>,
): Values {
  const changed: Record<string, unknown> = {};
  for (const { name, kind, ofNullable } of specs) {
    const { show, read } = KINDS[kind] as Kind;
    const text = texts[name] ?? '';
    if (normal(text) === show(valueAt(before, name))) continue;
    const [top = '', member] = name.split('.');
    if (member === undefined) {
      changed[top] = read(text);
      continue;
    }
    const { [member]: _before, ...others } = (changed[top] ?? before[top] ?? {}) as Values;
    const value = read(text);
    const left = value === null ? others : { ...others, [member]: value };
    changed[top] = ofNullable && Object.keys(left).length === 0 ? null : left;
  }
  return changed;
}

/** Forms send line breaks as CR LF. */
const normal = (text: string) => text.replaceAll('\r\n', '\n');

/** The control of a form that an error of the API is about. */
export function controlOf(param: string | null, names: readonly string[]): string | undefined {
  if (param === null) return undefined;
  const path = param.replace(/\[\d+\]|\/\d+/g, '').replaceAll('/', '.');
  return names.find((name) => name === path) ?? names.find((name) => name === path.split('.')[0]);
}
