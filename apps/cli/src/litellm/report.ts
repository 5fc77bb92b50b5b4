/** One setting of LiteLLM, and what it was converted to. */
interface Mapping {
  /** Its path, such as `model_list[0].litellm_params.rpm`; never its value, which may be a secret. */
  readonly from: string;
  /** What it became here; undefined if it has no counterpart. */
  readonly to: string | undefined;
  /** What differs, why it was not converted, or what is left to do. */
  readonly note: string | undefined;
}

/** Lists every setting that was read, so that none is dropped silently. */
export interface Report {
  readonly mappings: readonly Mapping[];
  addConverted(from: string, to: string, note?: string): void;
  addSkipped(from: string, reason: string): void;
}

export function createReport(): Report {
  const mappings: Mapping[] = [];
  return {
    mappings,
    addConverted: (from, to, note) => void mappings.push({ from, to, note }),
    addSkipped: (from, reason) => void mappings.push({ from, to: undefined, note: reason }),
  };
}

/** The report as text: what was converted, what was converted with differences, and what was not. */
export function reportLines({ mappings }: Report): string[] {
  const line = ({ from, to, note }: Mapping) =>
    `  ${from}${to === undefined ? '' : ` → ${to}`}${note === undefined ? '' : `: ${note}`}`;
  const section = (title: string, some: readonly Mapping[]) =>
    some.length === 0 ? [] : [`${title} (${some.length})`, ...some.map(line)];
  return [
    ...section(
      'Converted',
      mappings.filter(({ to, note }) => to !== undefined && note === undefined),
    ),
    ...section(
      'Converted, with a difference',
      mappings.filter(({ to, note }) => to !== undefined && note !== undefined),
    ),
    ...section(
      'Not converted',
      mappings.filter(({ to }) => to === undefined),
    ),
  ];
}
