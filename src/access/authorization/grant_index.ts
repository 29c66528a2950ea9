// A tree of grants by object id: finds the grants on a dropped object and on everything inside it without scanning all grants.
import type { Grant } from './directory_types.ts';

interface GrantNode {
  parent: string | undefined;
  grants: Grant[] | undefined;
  children: Set<string> | undefined;
}

export class GrantIndex {
  readonly #nodes = new Map<string, GrantNode>();

  add(grant: Grant): void {
    const node = this.#ensureNode(grant.path, grant.path.length - 1);
    if (node.grants) node.grants.push(grant);
    else node.grants = [grant];
  }

  remove(grant: Grant): void {
    const node = this.#nodes.get(grant.onId);
    const index = node?.grants?.indexOf(grant) ?? -1;
    if (!node?.grants || index < 0) return;
    // The order does not matter: the last grant takes the free slot.
    const last = node.grants.pop() as Grant;
    if (last !== grant) node.grants[index] = last;
    if (node.grants.length === 0) node.grants = undefined;
    this.#removeIfEmpty(grant.onId, node);
  }

  /** The grants on an object, a collection or everything itself. */
  findOn(id: string): readonly Grant[] {
    return this.#nodes.get(id)?.grants ?? [];
  }

  /** The grants on an object and on everything inside it. */
  findWithin(id: string): Grant[] {
    const found: Grant[] = [];
    const stack = [id];
    for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
      const node = this.#nodes.get(next);
      if (node?.grants) for (const grant of node.grants) found.push(grant);
      if (node?.children) for (const child of node.children) stack.push(child);
    }
    return found;
  }

  #ensureNode(path: readonly string[], index: number): GrantNode {
    const id = path[index] as string;
    const existing = this.#nodes.get(id);
    if (existing?.parent === path[index - 1] && existing) return existing;
    // The objects of a catalog that was moved have another parent.
    if (existing) this.#unlink(id, existing);
    const node: GrantNode = existing ?? { parent: undefined, grants: undefined, children: undefined };
    node.parent = path[index - 1];
    this.#nodes.set(id, node);
    if (index > 0) {
      const parentNode = this.#ensureNode(path, index - 1);
      parentNode.children ??= new Set();
      parentNode.children.add(id);
    }
    return node;
  }

  /** Removes a node without grants and children, and then its parent likewise. */
  #removeIfEmpty(id: string, node: GrantNode): void {
    if (node.grants || node.children) return;
    this.#nodes.delete(id);
    this.#unlink(id, node);
  }

  #unlink(id: string, { parent }: GrantNode): void {
    const parentNode = parent === undefined ? undefined : this.#nodes.get(parent);
    if (parent === undefined || !parentNode?.children) return;
    parentNode.children.delete(id);
    if (parentNode.children.size === 0) parentNode.children = undefined;
    this.#removeIfEmpty(parent, parentNode);
  }
}
