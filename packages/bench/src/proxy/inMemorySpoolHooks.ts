const IN_MEMORY_SPOOL = new URL('./inMemorySpool.js', import.meta.url).href;

type Resolve = (specifier: string, context: object) => Promise<{ readonly url: string }>;

/** Loads the in-memory spool instead of the proxy's spool: a hook of Node (https://nodejs.org/docs/latest-v20.x/api/module.html#resolvespecifier-context-nextresolve). */
export async function resolve(specifier: string, context: object, next: Resolve) {
  return specifier.endsWith('/spool/spool.js')
    ? { url: IN_MEMORY_SPOOL, shortCircuit: true }
    : await next(specifier, context);
}
