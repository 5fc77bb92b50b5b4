/** One thing of LiteLLM's, and what became of it. */
interface Mapping {
  /** Where it stands there, such as `model_list[0].litellm_params.rpm`; never its value, which may be a secret. */
  readonly from: string;
  /** What it is here; undefined where nothing stands for it. */
  readonly to: string | undefined;
  /** What differs, why there is nothing, or what is left to do. */
  readonly note: string | undefined;
}

/** Everything that was read, so that nothing is dropped in silence. */
export interface Report {
  readonly mappings: readonly Mapping[];
  taken(from: string, to: string, note?: string): void;
  left(from: string, why: string): void;
}

export function createReport(): Report {
  const mappings: Mapping[] = [];
  return {
    mappings,
    taken: (from, to, note) => void mappings.push({ from, to, note }),
    left: (from, why) => void mappings.push({ from, to: undefined, note: why }),
  };
}

/** For people: what was taken over, what was changed on the way, and what was left. */
export function reportLines({ mappings }: Report): string[] {
  const line = ({ from, to, note }: Mapping) =>
    `  ${from}${to === undefined ? '' : ` → ${to}`}${note === undefined ? '' : `: ${note}`}`;
  const section = (title: string, some: readonly Mapping[]) =>
    some.length === 0 ? [] : [`${title} (${some.length})`, ...some.map(line)];
  return [
    ...section(
      'Taken over',
      mappings.filter(({ to, note }) => to !== undefined && note === undefined),
    ),
    ...section(
      'Taken over, with a difference',
      mappings.filter(({ to, note }) => to !== undefined && note !== undefined),
    ),
    ...section(
      'Left out',
      mappings.filter(({ to }) => to === undefined),
    ),
  ];
}
