// The script of every page of the documentation: theme, menu on small screens, copy buttons. The pages can be read without it.
import '../src/ui/theme.css';
import './site.css';
import { chooseTheme, isDark, onThemeChange, startTheme } from '../src/app/theme_choice.ts';
import { startSearch } from './search.ts';

const copiedMs = 1500;

startTheme();
document.documentElement.classList.add('js');

function found<E extends Element>(selector: string, type: new () => E): E {
  const element = document.querySelector(selector);
  if (!(element instanceof type)) throw new Error(`the page has no ${selector}`);
  return element;
}

const themeButton = found('button.theme', HTMLButtonElement);
const showTheme = () => {
  themeButton.textContent = isDark() ? 'Light' : 'Dark';
  themeButton.setAttribute('aria-label', isDark() ? 'Light theme' : 'Dark theme');
};
themeButton.addEventListener('click', () => chooseTheme(isDark() ? 'light' : 'dark'));
onThemeChange(showTheme);
showTheme();
themeButton.hidden = false;

const menuButton = found('button.menu', HTMLButtonElement);
menuButton.addEventListener('click', () => {
  const isOpen = document.documentElement.classList.toggle('menu-open');
  menuButton.setAttribute('aria-expanded', String(isOpen));
});
menuButton.hidden = false;

for (const block of document.querySelectorAll('article pre')) {
  const button = document.createElement('button');
  button.type = 'button';
  button.className = 'copy';
  button.textContent = 'Copy';
  button.addEventListener('click', async () => {
    await navigator.clipboard.writeText(block.textContent?.trimEnd() ?? '');
    button.textContent = 'Copied';
    setTimeout(() => {
      button.textContent = 'Copy';
    }, copiedMs);
  });
  const frame = document.createElement('div');
  frame.className = 'code';
  block.replaceWith(frame);
  frame.append(block, button);
}

document.querySelector('.sidebar [aria-current]')?.scrollIntoView({ block: 'nearest' });
startSearch(
  found('search', HTMLElement),
  found('search input', HTMLInputElement),
  found('.results', HTMLUListElement),
  found('search [role=status]', HTMLParagraphElement),
);
