import { AppError } from '@weighbridge/errors';

/** What names of models at clouds consist of: also ARNs, versions behind `@` or `:`, and publishers before `/`. */
const NAME = /^[\w.@:/-]{1,256}$/;
/** Parts that lead elsewhere once someone decodes the path. */
const ELSEWHERE = /(^|\/)\.*(\/|$)/;

/** The name of a model as one segment of a path. Throws a 400 for one that would lead elsewhere. */
export function modelSegment(name: string): string {
  if (NAME.test(name) && !ELSEWHERE.test(name)) return encodeURIComponent(name).replaceAll('%40', '@');
  const message =
    'The account calls this model by a name that no cloud has. The operator of the service can correct it.';
  throw new AppError('invalid_request', 'invalid_model', message, { param: 'model' });
}
