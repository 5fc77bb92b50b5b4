const NO_SPOOL = new URL(`./noSpool.js${new URL(import.meta.url).search}`, import.meta.url).href;

type Resolve = (specifier: string, context: object) => Promise<{ readonly url: string }>;

/** Node's hook (https://nodejs.org/docs/latest-v20.x/api/module.html#resolvespecifier-context-nextresolve). */
export async function resolve(specifier: string, context: object, next: Resolve) {
  return specifier.endsWith('/spool/spool.js')
    ? { url: NO_SPOOL, shortCircuit: true }
    : await next(specifier, context);
}
