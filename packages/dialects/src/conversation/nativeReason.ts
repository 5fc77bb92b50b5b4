import type { FinishEvent } from '../ir/event.ts';
import { beginning } from '../loss/beginning.ts';

const MAX_LENGTH = 64;

/** The vendor's own word for why it stopped, as a caller gets it. */
export function nativeReason({ native }: FinishEvent): string {
  return beginning(native, MAX_LENGTH);
}
