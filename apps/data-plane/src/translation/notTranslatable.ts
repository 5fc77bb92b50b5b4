import type { Loss, LossPolicy } from '@weighbridge/dialects';
import { shortened } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';

const CODE = 'not_translatable';
/** The others are in the details. */
const MAX_SHOWN = 5;

const WHY: Readonly<Record<LossPolicy, string>> = {
  lenient: '',
  strict: ', and the translation of this key or profile is strict: nothing may be changed or dropped',
};

/** The 400 for a request that the model's vendor would have to get without what it is about. It names every such field. */
export function notTranslatable(model: string, refused: readonly Loss[], policy: LossPolicy): AppError {
  const shown = refused.slice(0, MAX_SHOWN).map(({ path, reason }) => `${path}: ${reason}`);
  const more = refused.length > MAX_SHOWN ? [`and ${refused.length - MAX_SHOWN} more`] : [];
  const message = `The vendor of ${shortened(model)} speaks another dialect, in which fields of this request have no counterpart${WHY[policy]}. ${[...shown, ...more].join('; ')}. Change the request there, or use a model whose vendor takes it as it is.`;
  const fields = refused.map(({ path, reason }) => ({ path, reason }));
  return new AppError('invalid_request', CODE, message, {
    param: refused[0]?.path ?? 'model',
    details: { fields },
  });
}

/** The 400 for a request that would take too long to translate. */
export function tooManyParts(most: number, values: number, depth: number): AppError {
  const message = `A request that is translated for a vendor with another dialect may have ${most} messages, parts and tools, and ${values} JSON values in all, nested at most ${depth} deep, and this one has more. Shorten it, or use a model whose vendor takes it as it is.`;
  return new AppError('invalid_request', CODE, message);
}

/**
 * A refusal of a translated request, of which the caller's own has no such field: its paths are the vendor's, and would name nothing
 * that the caller sent.
 */
export function inTranslation(error: unknown, model: string): unknown {
  if (!(error instanceof AppError)) return error;
  const { kind, code, message, param, details } = error;
  const where = param === undefined ? '' : ` Its field ${param} is the vendor's.`;
  return new AppError(
    kind,
    code,
    `As the request is translated for the vendor of ${shortened(model)}: ${message}${where}`,
    { param: 'model', details },
  );
}

/** Whether another target may take what this one did not. */
export function isNotTranslatable(error: unknown): boolean {
  return error instanceof AppError && error.code === CODE;
}
