// The project's own text as the style tests see it: which files there are, and each source file taken apart by the
// compiler into imports, functions and words. Judges nothing.
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, relative, resolve } from 'node:path';
import { type Node, type SourceFile, SyntaxKind } from 'typescript/unstable/ast';
import { API } from 'typescript/unstable/sync';

export const root = resolve(import.meta.dirname, '../..');

export interface Import {
  /** Relative to the root for our own files, else the package's name as written. */
  readonly target: string;
  readonly line: number;
}
export interface FunctionSpan {
  readonly name: string;
  readonly line: number;
  readonly lines: number;
  /** An arrow or a function expression, such as the callback of a suite. */
  readonly isExpression: boolean;
}
export interface Word {
  readonly text: string;
  readonly line: number;
}
export interface Source {
  /** Relative to the root, with `/`. */
  readonly path: string;
  readonly text: string;
  readonly imports: readonly Import[];
  readonly functions: readonly FunctionSpan[];
  /** Identifiers, strings, templates, regular expressions; comments are none of them. */
  readonly words: readonly Word[];
  /** Where the text has a type that the compiler does not check: assertions, `any`, results of a type that only the caller names. */
  readonly typeEscapes: readonly Word[];
}

const functionKinds = new Set([
  SyntaxKind.FunctionDeclaration,
  SyntaxKind.FunctionExpression,
  SyntaxKind.ArrowFunction,
  SyntaxKind.MethodDeclaration,
  SyntaxKind.Constructor,
  SyntaxKind.GetAccessor,
  SyntaxKind.SetAccessor,
]);
const wordKinds = new Set([
  SyntaxKind.Identifier,
  SyntaxKind.PrivateIdentifier,
  SyntaxKind.StringLiteral,
  SyntaxKind.NoSubstitutionTemplateLiteral,
  SyntaxKind.TemplateHead,
  SyntaxKind.TemplateMiddle,
  SyntaxKind.TemplateTail,
  SyntaxKind.RegularExpressionLiteral,
]);

const typeEscapeKinds = new Set([
  SyntaxKind.TypeAssertionExpression,
  SyntaxKind.NonNullExpression,
  SyntaxKind.AnyKeyword,
]);

/** A function with a type parameter that its result has and none of its parameters. */
function choosesItsResult(node: Node, file: SourceFile): boolean {
  const {
    typeParameters = [],
    parameters = [],
    type,
  } = node as Node & {
    typeParameters?: readonly (Node & { name: Node })[];
    parameters?: readonly Node[];
    type?: Node;
  };
  return typeParameters.some(({ name }) => {
    const word = new RegExp(`\\b${name.getText(file)}\\b`);
    const isIn = (part: Node | undefined) => part !== undefined && word.test(part.getText(file));
    return isIn(type) && !parameters.some(isIn);
  });
}

function isTypeEscape(node: Node, file: SourceFile): boolean {
  if (node.kind === SyntaxKind.AsExpression) return (node as Node & { type: Node }).type.getText(file) !== 'const';
  return typeEscapeKinds.has(node.kind) || (functionKinds.has(node.kind) && choosesItsResult(node, file));
}

const dynamicImport = /^(?:import|process\.getBuiltinModule)\(/;

/** Files that people write, as paths from the root; what is generated or installed is left out. */
export function filesUnder(...patterns: string[]): string[] {
  const skipped = ['node_modules', 'dist', 'data', '.git', 'results'];
  return globSync(patterns, { cwd: root, exclude: (name) => skipped.includes(name.split('/').at(-1) ?? '') })
    .map((path) => path.replaceAll('\\', '/'))
    .sort();
}

export const textOf = (path: string): string => readFileSync(join(root, path), 'utf8');

function targetOf(from: string, specifier: string): string {
  return specifier.startsWith('.') ? relative(root, resolve(dirname(join(root, from)), specifier)) : specifier;
}

function take(path: string, file: SourceFile): Source {
  const text = textOf(path);
  const starts = [0];
  for (let newline = text.indexOf('\n'); newline >= 0; newline = text.indexOf('\n', newline + 1))
    starts.push(newline + 1);
  const lineOf = (offset: number): number => {
    const after = starts.findIndex((start) => start > offset);
    return after < 0 ? starts.length : after;
  };
  const imports: Import[] = [];
  const functions: FunctionSpan[] = [];
  const words: Word[] = [];
  const typeEscapes: Word[] = [];
  const visit = (node: Node): undefined => {
    const start = () => lineOf(node.getStart(file));
    const { kind } = node;
    const written = node as Node & { moduleSpecifier?: Node; name?: Node; body?: Node; arguments?: readonly Node[] };
    const dynamic = kind === SyntaxKind.CallExpression && dynamicImport.test(node.getText(file));
    const specifier = written.moduleSpecifier ?? (dynamic ? written.arguments?.[0] : undefined);
    if (specifier?.kind === SyntaxKind.StringLiteral)
      imports.push({ target: targetOf(path, specifier.getText(file).slice(1, -1)), line: start() });
    if (functionKinds.has(kind) && written.body)
      functions.push({
        name: written.name?.getText(file) ?? 'a function without a name',
        line: start(),
        lines: lineOf(node.end) - start() + 1,
        isExpression: kind === SyntaxKind.ArrowFunction || kind === SyntaxKind.FunctionExpression,
      });
    if (wordKinds.has(kind)) words.push({ text: node.getText(file), line: start() });
    if (isTypeEscape(node, file)) typeEscapes.push({ text: node.getText(file), line: start() });
    node.forEachChild(visit);
    return undefined;
  };
  visit(file);
  return { path, text, imports, functions, words, typeEscapes };
}

const projects = [
  { config: 'tsconfig.json', files: '{src,tests,bench,scripts}/**/*.ts' },
  { config: 'console/tsconfig.json', files: 'console/**/*.{ts,tsx}' },
];

/** Every TypeScript file of the project, parsed; types are not needed, so it works while they are wrong. */
export function readSources(): Source[] {
  const api = new API({ cwd: root });
  try {
    return projects.flatMap(({ config, files }) => {
      const [project] = api.updateSnapshot({ openProject: join(root, config) }).getProjects();
      return filesUnder(files).map((path) => {
        const file = project?.program.getSourceFile(join(root, path));
        if (!file) throw new Error(`${config} leaves out ${path}`);
        return take(path, file);
      });
    });
  } finally {
    api.close();
  }
}
