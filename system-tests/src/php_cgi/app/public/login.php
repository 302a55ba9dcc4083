<?php
// Takes a name and a password, and knows its session from then on.
require __DIR__ . '/../lib/app.php';

session_start(['cookie_secure' => true, 'cookie_httponly' => true]);
if ($_SERVER['REQUEST_METHOD'] === 'POST') {
    $found = users()->prepare('SELECT hash FROM users WHERE name = ?');
    $found->execute([$_POST['name'] ?? '']);
    $hash = $found->fetchColumn();
    if ($hash === false || !password_verify($_POST['password'] ?? '', $hash)) {
        http_response_code(403);
        exit("wrong\n");
    }
    session_regenerate_id(true);
    $_SESSION = ['name' => $_POST['name'], 'visits' => 0];
}
if (!isset($_SESSION['name'])) {
    http_response_code(401);
    exit("nobody\n");
}
echo $_SESSION['name'], ' at ', TENANT, ', visit ', ++$_SESSION['visits'], "\n";
