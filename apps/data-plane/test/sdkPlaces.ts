/** The members of a request that may be ids, by their names. */
type IdName =
  | 'id'
  | `${string}_id`
  | `${string}_ids`
  | `${string}Id`
  | `${string}Ids`
  | 'conversation'
  | 'container'
  | 'previous_response_id'
  // Google names objects by URIs and paths.
  | 'fileUri'
  | 'cachedContent'
  | 'fileSearchStoreNames'
  | 'datastore'
  | 'dataStore'
  | 'engine'
  | 'ragCorpora'
  | 'ragCorpus'
  | 'continuationToken';

type IsAny<T> = 0 extends 1 & T ? true : false;
/** `.id`, or `.ids[]`; never for what is no free text, such as one of several words. */
type Id<K extends string, V> = V extends string
  ? string extends V
    ? `.${K}`
    : never
  : V extends readonly string[]
    ? `.${K}[]`
    : never;
type TagOf<T> = T extends { type?: infer Tag } ? (string extends Tag ? never : Extract<Tag, string>) : never;
type Prefix<T, P extends string> = [TagOf<T>] extends [never] ? P : `${P}{${TagOf<T>}}`;
type Members<T, P extends string, D extends 1[]> = {
  [K in keyof T & string]-?:
    | (K extends LinkName ? never : K extends IdName ? `${P}${Id<K, T[K]>}` : never)
    | Places<NonNullable<T[K]>, `${P}.${K}`, [...D, 1]>;
}[keyof T & string];

/** They link what is in one request, or say on whose behalf it is: no vendor looks up an object by them. */
type LinkName =
  | 'call_id'
  | 'tool_call_id'
  | 'tool_use_id'
  | 'tool_id'
  | 'user_id'
  | 'user_profile_id'
  | 'workspace_id';

/**
 * Every place of a type where it allows an id: `.input[]{reasoning}.id` is the member `id` of an item of `input` that has the
 * type `reasoning`.
 */
export type Places<T, P extends string = '', D extends 1[] = []> = D['length'] extends 8
  ? never
  : IsAny<T> extends true
    ? never
    : T extends string | number | boolean | null | undefined
      ? never
      : T extends readonly (infer Item)[]
        ? Places<NonNullable<Item>, `${P}[]`, [...D, 1]>
        : T extends object
          ? string extends keyof T
            ? never
            : Members<T, Prefix<T, P>, D>
          : never;
