/** A scalar within a JSON value. */
export interface Leaf {
  /** With `.` between names and indexes, as losses name places. */
  readonly path: string;
  readonly steps: readonly (string | number)[];
  readonly value: unknown;
}

export function leavesOf(value: unknown, steps: readonly (string | number)[] = []): Leaf[] {
  if (Array.isArray(value)) return value.flatMap((one, index) => leavesOf(one, [...steps, index]));
  if (typeof value === 'object' && value !== null) {
    return Object.entries(value).flatMap(([name, one]) => leavesOf(one, [...steps, name]));
  }
  return [{ path: steps.join('.'), steps, value }];
}

/** Another value of the same type. */
export function otherValue(value: unknown): unknown {
  if (typeof value === 'string') return `${value}x`;
  if (typeof value === 'number') return value + 1;
  return !value;
}

/** A copy in which one leaf has another value. */
export function withLeaf(root: unknown, steps: readonly (string | number)[], value: unknown): unknown {
  const [step, ...rest] = steps;
  if (step === undefined) return value;
  if (Array.isArray(root))
    return root.map((one, index) => (index === step ? withLeaf(one, rest, value) : one));
  const record = root as Record<string, unknown>;
  return { ...record, [step]: withLeaf(record[step], rest, value) };
}

/** A copy without a member or an item. */
export function without(root: unknown, steps: readonly (string | number)[]): unknown {
  const [step, ...rest] = steps;
  if (rest.length > 0) {
    if (Array.isArray(root)) return root.map((one, index) => (index === step ? without(one, rest) : one));
    const record = root as Record<string, unknown>;
    return { ...record, [step as string]: without(record[step as string], rest) };
  }
  if (Array.isArray(root)) return root.filter((_, index) => index !== step);
  const { [step as string]: _, ...others } = root as Record<string, unknown>;
  return others;
}

/** The steps to each member and item. */
export function nodesOf(
  value: unknown,
  steps: readonly (string | number)[] = [],
): (readonly (string | number)[])[] {
  if (typeof value !== 'object' || value === null) return [steps];
  const entries = Array.isArray(value)
    ? value.map((one, index) => [index, one] as const)
    : Object.entries(value);
  const below = entries.flatMap(([step, one]) => nodesOf(one, [...steps, step]));
  return steps.length === 0 ? below : [steps, ...below];
}
