import { usePolicyChoices } from '../api/choices.ts';
import { Name } from '../ui/bits.tsx';

/** The name of a policy, by its id; the id itself if there is no such policy among the first 500. */
export function PolicyName({ id, none = '–' }: { id: string | null; none?: string }) {
  const name = usePolicyChoices()?.find(([value]) => value === id)?.[1];
  return id === null ? none : <Name text={name ?? id} />;
}
