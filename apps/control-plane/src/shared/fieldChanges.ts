/** The fields of `input` whose values differ from those of `before`, as the audit log shows them. */
export function fieldChanges<T extends object>(
  before: T,
  input: Partial<T>,
): Partial<Record<keyof T, { readonly from: unknown; readonly to: unknown }>> {
  const names = (Object.keys(input) as (keyof T)[]).filter(
    (name) => JSON.stringify(input[name]) !== JSON.stringify(before[name]),
  );
  return Object.fromEntries(names.map((name) => [name, { from: before[name], to: input[name] }])) as Partial<
    Record<keyof T, { from: unknown; to: unknown }>
  >;
}
