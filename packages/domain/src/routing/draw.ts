/**
 * Draws an order: each comes first with the probability of its share of the weights, and so on among those that are left
 * (Efraimidis and Spirakis, 2006: the first of exponential arrivals). A weight of 0 counts as 1: who sent it does not tell.
 */
export function drawnByWeight<Item extends { readonly weight: number }>(
  items: readonly Item[],
  random: () => number,
): Item[] {
  if (items.length < 2) return [...items];
  return items
    .map((item) => ({ item, at: -Math.log(1 - random()) / (item.weight || 1) }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

/** By priority, the lowest number first, and drawn by weight within one. */
export function byPriorityAndWeight<Item extends { readonly priority: number; readonly weight: number }>(
  items: readonly Item[],
  random: () => number,
): Item[] {
  if (items.length < 2) return [...items];
  return drawnByWeight(items, random).sort((a, b) => a.priority - b.priority);
}
