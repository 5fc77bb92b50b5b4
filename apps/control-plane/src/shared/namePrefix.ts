/** The provider with which a name begins, if it is one of these. */
export function beginsWith(name: string, providers: ReadonlySet<string>): string | undefined {
  const slash = name.indexOf('/');
  const provider = slash === -1 ? undefined : name.slice(0, slash);
  return provider !== undefined && providers.has(provider) ? provider : undefined;
}
