import { inputItems, joinItems } from '@weighbridge/dialects';
import type { ResolvedKey } from '@weighbridge/state';
import type { Plan } from '../attempt/plan.ts';
import type { PreparedRequest } from '../attempt/preparedRequest.ts';
import type { HeldMemory } from '../shared/memoryBudget.ts';
import type { ResponseStore } from '../translation/responseStore.ts';

/** Stores a translated answer with the conversation that led to it; undefined if this service does not store it. */
export function storing(
  store: ResponseStore | undefined,
  { principalId }: ResolvedKey,
  { translation }: PreparedRequest,
  plan: Plan,
  memory: Pick<HeldMemory, 'tryTake'>,
): ((response: string) => Promise<void>) | undefined {
  if (!store || !translation?.isStored || plan.kind !== 'generation') return undefined;
  const { body } = plan.generation;
  return (response) => {
    const { id, output } = JSON.parse(response) as {
      readonly id: string;
      readonly output: readonly unknown[];
    };
    const said = output.map((item) => Buffer.from(JSON.stringify(item)));
    const items = joinItems(inputItems(body.toBuffer()), ...said);
    return store.save(id, principalId, { items, response: Buffer.from(response) }, memory);
  };
}
