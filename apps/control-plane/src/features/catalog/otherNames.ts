import { type ModelId, ROUTER_PREFIX } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { beginsWith } from '../../shared/namePrefix.ts';

const MAX_NAME = 200;
/** What names of models consist of. */
const NAME = /^[A-Za-z0-9._:@/+[\]-]+$/;

/** Returns the other names of a model, each once; throws a 422 for one that breaks a rule. */
export function validOtherNames(model: ModelId, names: readonly string[]): string[] {
  for (const [index, name] of names.entries()) {
    const why = whyInvalid(model, name);
    if (why !== undefined) throw nameInvalid(why, index);
  }
  return [...new Set(names)];
}

function whyInvalid(model: ModelId, name: string): string | undefined {
  if (name.length < 1 || name.length > MAX_NAME || !NAME.test(name) || /^\/|\/$/.test(name))
    return `Another name of a model has 1 to ${MAX_NAME} letters, digits and any of . _ : @ / + - [ ], with no slash at an end.`;
  if (name.startsWith(ROUTER_PREFIX))
    return `Another name of a model can't begin with ${ROUTER_PREFIX}: such a name is always a routing profile.`;
  if (name === model.name) return `The model already has the bare name ${name}. List only names that differ.`;
  return name.startsWith(`${model.provider}/`) ? withoutProvider(model.provider) : undefined;
}

/** Throws a 422 if a name begins with one of the providers: such a name is always a model of it. */
export function assertNoProviders(names: readonly string[], providers: ReadonlySet<string>): void {
  for (const [index, name] of names.entries()) {
    const provider = beginsWith(name, providers);
    if (provider !== undefined) throw nameInvalid(withoutProvider(provider), index);
  }
}

function withoutProvider(provider: string): string {
  return `Another name of a model can't begin with ${provider}/: such a name is always a model of this provider. Requests may put the model's own provider before every other name.`;
}

function nameInvalid(message: string, index: number): AppError {
  return new AppError('validation', 'other_names_invalid', message, { param: `other_names.${index}` });
}
